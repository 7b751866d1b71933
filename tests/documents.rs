//! The documents, held to the code. Their commands are run as they are written, on a booted node.

mod booted;
mod pages;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use pages::{Step, bare, documents, examples, manual, read, root, rows, steps};
use serde_json::Value;
use trident_acl_agent::config::{PREFIX, SETTINGS};
use trident_acl_agent::contract::{self, message_id};
use trident_lab::lab::{APP, COMMIT_STATUS, Lab, NODE, Request, SERVER, SOON, STATUS, TRACK};
use trident_lab::node::BOOT_LIMIT;
use uuid::Uuid;

const CONFIGURATION: &str = "docs/configuration.md";
const OPERATIONS: &str = "docs/operations.md";
const RELIABILITY: &str = "docs/reliability.md";
/// Of the reconcile timer: two passes and what lies between.
const TWO_PASSES: Duration = Duration::from_secs(120);

booted::on_each_release!(the_readme_works_as_written, operations_and_manual_work_as_written);

#[test]
fn each_setting_has_its_row() -> Result<()> {
    let declared: Vec<_> = SETTINGS.iter().map(|it| (it.name.into(), it.default.into())).collect();
    let text = read(CONFIGURATION)?;
    let written: Vec<(String, String)> = rows(&text)
        .into_iter()
        .filter(|cells| cells[0].starts_with('`'))
        .map(|cells| (bare(&cells[0]), bare(&cells[1]).replace("unset", "")))
        .collect();
    assert_eq!(written, declared);
    Ok(())
}

#[test]
fn each_setting_is_in_the_manual() -> Result<()> {
    let head = format!(".BR {PREFIX}");
    let manual = manual()?;
    let written: Vec<_> = manual.lines().filter_map(|line| line.strip_prefix(&head)).collect();
    let declared: Vec<_> = SETTINGS
        .iter()
        .map(|it| match it.default {
            "" => format!("{} \" (unset)\"", it.name),
            default => format!("{} \" (\" {default} )", it.name),
        })
        .collect();
    assert_eq!(written, declared);
    Ok(())
}

/// Whatever is set, an administrator set it.
#[test]
fn no_shipped_unit_has_a_setting() -> Result<()> {
    let mut directories = vec![root().join("units")];
    let mut seen = 0;
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            seen += 1;
            let text = std::fs::read_to_string(&path)?;
            let sets = |line: &str| line.trim_start().starts_with("Environment");
            ensure!(!text.lines().any(sets), "{}", path.display());
        }
    }
    ensure!(seen > 8, "{seen} units");
    Ok(())
}

#[test]
fn each_message_id_is_described() -> Result<()> {
    let (manual, operations) = (manual()?, read(OPERATIONS)?);
    for id in [
        message_id::OPERATION_STARTED,
        message_id::OPERATION_ENDED,
        message_id::REBOOT_ASKED,
        message_id::COMMIT_ENDED,
    ] {
        assert!(manual.contains(id) && operations.contains(id), "{id}");
    }
    Ok(())
}

#[test]
fn the_exit_codes_are_these() -> Result<()> {
    let number = |text: &str| text.parse::<u8>().ok();
    let source = read("src/bin/trident-acl-agent.rs")?;
    let arms = source.lines().filter(|line| line.trim().starts_with("Exit::"));
    let mut coded: BTreeSet<_> =
        arms.filter_map(|arm| number(arm.split_once("=> ")?.1.trim_end_matches(','))).collect();
    // The command line parser's own.
    coded.insert(2);
    let readme: BTreeSet<_> =
        rows(&read("README.md")?).iter().filter_map(|cells| number(&cells[0])).collect();
    let manual: BTreeSet<_> =
        manual()?.lines().filter_map(|line| number(line.strip_prefix(".B ")?)).collect();
    assert_eq!(readme, coded);
    assert_eq!(manual, coded);
    Ok(())
}

#[test]
fn the_program_ends_with_them() -> Result<()> {
    let nothing = tempfile::tempdir()?;
    let state = nothing.path().join("state.json");
    let socket = format!("unix://{}/none.sock", nothing.path().display());
    let id = Uuid::new_v4().to_string();
    for (arguments, timeout, code) in [
        (&["--version"][..], "20m", 0),
        (&["--validate-connection", "tridentd"], "20m", 1),
        (&["--nonsense"], "20m", 2),
        (&["operate", "stage", &id], "20m", 75),
        (&["commit"], "soon", 78),
    ] {
        let ended = Command::new(env!("CARGO_BIN_EXE_trident-acl-agent"))
            .args(arguments)
            .env(format!("{PREFIX}ORCHESTRATION_STAGE_TIMEOUT"), timeout)
            .env(format!("{PREFIX}ORCHESTRATION_STATE_PATH"), &state)
            .env(format!("{PREFIX}TRIDENT_SOCKET"), &socket)
            .output()?;
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {said}");
    }
    Ok(())
}

#[test]
fn each_link_leads_somewhere() -> Result<()> {
    for file in documents()? {
        let text = read(&file)?;
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for link in links.filter(|link| !link.is_empty() && !link.contains("://")) {
            let target = root().join(&file).with_file_name(link);
            assert!(target.exists(), "{file}: {link}");
        }
    }
    Ok(())
}

#[test]
fn each_promise_names_its_test() -> Result<()> {
    for (page, at_least) in [("README.md", 10), (RELIABILITY, 10)] {
        let text = read(page)?;
        let held = rows(&text).into_iter().filter_map(|cells| cells.get(1).cloned());
        let named: Vec<_> = held.filter(|cell| cell.contains("::")).collect();
        assert!(named.len() > at_least, "{page}: {named:?}");
        let cells = named.iter().flat_map(|cell| cell.split('`'));
        for name in cells.filter(|part| part.contains("::")) {
            let (place, test) = name.split_once("::").context("no test")?;
            assert!(has_test(&tests_of(place)?, test), "{page}: {name}");
        }
    }
    Ok(())
}

#[test]
fn each_step_is_described() -> Result<()> {
    let declared: Vec<_> =
        trident_acl_agent::steps::Step::ALL.iter().map(|step| step.name().to_owned()).collect();
    let text = read(RELIABILITY)?;
    let table = text.split("\n\n").find(|part| part.starts_with("| step |")).context("no table")?;
    let written: Vec<_> = rows(table).iter().skip(2).map(|cells| bare(&cells[0])).collect();
    assert_eq!(written, declared);
    Ok(())
}

/// The source of an integration test, in one file or several, or of a room's unit tests.
fn tests_of(place: &str) -> Result<String> {
    let (modules, room) = (root().join("tests").join(place), root().join("src").join(place));
    let single = [modules.with_extension("rs"), room.join("tests.rs")];
    let mut files: Vec<_> = single.into_iter().filter(|it| it.exists()).collect();
    for directory in [modules, room.join("tests")].iter().filter(|it| it.exists()) {
        for file in std::fs::read_dir(directory)? {
            files.push(file?.path());
        }
    }
    ensure!(!files.is_empty(), "no tests of {place}");
    files.iter().map(|file| Ok(std::fs::read_to_string(file)?)).collect()
}

/// As a function, or as the first thing that a macro of tests is given.
fn has_test(source: &str, test: &str) -> bool {
    let (function, given) = (format!("fn {test}("), format!("{test},"));
    let is_given = |line: &str| line.split('(').any(|part| part.trim().starts_with(&given));
    source.contains(&function) || source.lines().any(is_given)
}

#[test]
fn each_command_is_known() -> Result<()> {
    let makefile = read("Makefile")?;
    for file in documents()? {
        for step in steps(&file)? {
            match step {
                Step::Make(target) => {
                    assert!(makefile.contains(&format!("\n{target}:")), "{file}: make {target}");
                }
                Step::Node(_) => {
                    let run = ["README.md", OPERATIONS].contains(&file.as_str());
                    assert!(run, "nothing runs the commands of {file}");
                }
                Step::Annotate(..) | Step::Get(_) => {}
            }
        }
    }
    Ok(())
}

#[test]
fn each_request_keeps_the_contract() -> Result<()> {
    let schema: Value = serde_json::from_str(&read("docs/schemas/update-request-1.0.json")?)?;
    let schema = jsonschema::draft202012::new(&schema)?;
    let keys = contract::Keys::new("acl.microsoft.com")?;
    let mut seen = BTreeSet::new();
    for step in steps("README.md")? {
        let Step::Annotate(key, text) = step else { continue };
        assert_eq!(key, keys.request);
        let problems: Vec<_> = schema
            .iter_errors(&serde_json::from_str(&text)?)
            .map(|problem| problem.to_string())
            .collect();
        assert!(problems.is_empty(), "{problems:?}");
        let request = contract::Request::parse(&text).map_err(|broken| broken.problem)?;
        seen.insert(request.operation().name());
    }
    assert_eq!(seen, BTreeSet::from(["stage", "finalize", "rollback"]));
    Ok(())
}

/// A day with it, then the timer in the watcher's place.
async fn the_readme_works_as_written(setup: booted::Setup) -> Result<()> {
    let every_step = "/etc/systemd/system/trident-acl-agent-.service.d/50-lab.conf";
    let trust = "[Service]\nEnvironment=SSL_CERT_FILE=/etc/lab-ca.pem\n";
    let lab = setup.file(every_step, trust).boot().await?;
    for step in steps("README.md")? {
        take(&lab, &step, "").await.with_context(|| format!("{step:?}\n{}", lab.story()))?;
    }
    let enabled = ["is-enabled", "trident-acl-agent-reconcile.timer", "trident-acl-agent.service"];
    let enabled = lab.node.systemctl(&enabled).await?.stdout;
    ensure!(enabled.split_whitespace().eq(["enabled", "disabled"]), "{enabled}");
    for unit in ["trident-acl-agent-commit.service", "trident-acl-agent-report.timer"] {
        lab.node.systemctl(&["is-enabled", unit]).await?.text()?;
    }

    let stage = Request::stage(Uuid::new_v4());
    let status = lab.carry_out(&stage, TWO_PASSES).await?;
    ensure!(status["code"] == "Success", "{status}\n{}", lab.story());
    ensure!(lab.node.show(&stage.unit(), "CPUWeight").await? == "20");
    let said = lab.node.run(&["journalctl", "-u", &stage.unit()]).await?.stdout;
    ensure!(said.contains("CURRENT_VERSION_FALLBACK=error"), "{said}");
    Ok(())
}

/// On a node that has a whole update, its rollback and a new stage behind it.
async fn operations_and_manual_work_as_written(setup: booted::Setup) -> Result<()> {
    let lab = setup.boot().await?;
    let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
    let stage = Request::stage(second);
    for request in [Request::stage(first), Request::finalize(first), Request::rollback(first)] {
        carry_through(&lab, &request).await?;
    }
    carry_through(&lab, &stage).await?;
    for step in steps(OPERATIONS)?.into_iter().chain(examples()?) {
        let taken = take(&lab, &step, stage.operation_id()).await;
        taken.with_context(|| format!("{step:?}\n{}", lab.story()))?;
    }
    Ok(())
}

async fn take(lab: &Lab, step: &Step, id: &str) -> Result<()> {
    match step {
        Step::Make(_) => Ok(()),
        Step::Get(key) => {
            let said = lab.kube.annotation(NODE, key).with_context(|| format!("no {key}"))?;
            ensure!(said.contains("\"Success\""), "{said}");
            Ok(())
        }
        Step::Annotate(_, text) => {
            let Value::Object(fields) = serde_json::from_str(text)? else { bail!("no object") };
            let request = fields.into_iter().fold(
                Request::rollback(Uuid::nil()),
                |request, (name, value)| match name.as_str() {
                    "server" => request.with("server", SERVER.into()),
                    "appId" => request.with("appId", APP.into()),
                    "track" => request.with("track", TRACK.into()),
                    name => request.with(name, value),
                },
            );
            carry_through(lab, &request).await
        }
        Step::Node(script) => run(lab, &script.replace("<operationId>", id)).await,
    }
}

/// To the end: of a finalize or rollback, the commit after the reboot.
async fn carry_through(lab: &Lab, request: &Request) -> Result<()> {
    let boot = lab.node.boot_count() + 1;
    let status = lab.carry_out(request, SOON).await?;
    ensure!(status["code"] == "Success", "{status}\n{}", lab.story());
    if request.operation() != "stage" {
        let status = lab.terminal(COMMIT_STATUS, request, SOON).await?;
        ensure!(status["code"] == "Success", "{status}\n{}", lab.story());
        lab.node.wait_boot(boot, BOOT_LIMIT).await?;
    }
    ensure!(lab.kube.annotation(NODE, STATUS).is_some());
    Ok(())
}

async fn run(lab: &Lab, script: &str) -> Result<()> {
    let output = lab.node.run(&["sh", "-euc", script]).await?;
    // An inactive unit is shown all the same, with this code.
    let shown = script.starts_with("systemctl status") && output.stdout.contains("Loaded: loaded");
    ensure!(output.code == Some(0) || (output.code == Some(3) && shown), "{output:?}");
    // Warnings there may be, or none.
    let reads = script.starts_with("journalctl") && !script.contains("-p warning");
    ensure!(!reads || output.stdout.contains("node-1"), "nothing to read: {output:?}");
    Ok(())
}
