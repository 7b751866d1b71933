//! What stands in an annotation is text, wherever it goes: on the node it becomes no command, no name and no
//! field.

mod booted;

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use booted::carry_out;
use serde_json::{Value, json};
use trident_lab::lab::{Lab, NODE, REQUEST, Request, SOON, STATUS};
use uuid::Uuid;

booted::on_each_release!(what_an_annotation_says_stays_a_text);

/// Right by every rule of a request, and a command, a specifier, an escape or an option to whoever takes it
/// for one.
const HOSTILE: &str =
    "$(touch /pwned) `touch /pwned` ${PATH} $$ %i %n %H %% \\x2d \\n ' \" ; | & <a> \u{202e}--help";
/// Of a field of the journal, were a line break to end one.
const FORGED: &str = "1\nFORGED=1\nPRIORITY=0\n\u{1b}[31mred\u{9b}2J";
const AGENT: &str = "trident-acl-agent";

async fn what_an_annotation_says_stays_a_text(setup: booted::Setup) -> Result<()> {
    let probe = "https://user:password@updates.lab.test/pathword?queryword#fragmentword";
    let lab = setup.setting("NEBRASKA_ENDPOINT", probe).boot().await?;
    let stage = Request::stage(Uuid::new_v4())
        .with("operationId", json!(Uuid::new_v4().to_string().to_uppercase()))
        .with("targetVersion", json!(HOSTILE))
        .with("track", json!(HOSTILE))
        .with("appId", json!(HOSTILE));
    let status = carry_out(&lab, &stage, "OperationFailed").await?;
    ensure!(status["toVersion"] == HOSTILE && status["operationId"] == stage.operation_id());
    let unit = stage.unit().to_lowercase();
    check_unit(&lab, &unit).await?;
    check_record(&lab, &stage.operation_id().to_lowercase())?;

    broken_ones(&lab).await?;
    forged_status(&lab).await?;
    check_units(&lab, &unit).await?;
    check_files(&lab).await?;
    check_journal(&lab)
}

/// Nothing of the request but its operation and its id, in all that systemd knows of the unit.
async fn check_unit(lab: &Lab, unit: &str) -> Result<()> {
    let shown = lab.node.systemctl(&["show", unit]).await?.stdout;
    for part in ["pwned", "PATH}", "%i", "x2d", "--help", "\u{202e}"] {
        ensure!(!shown.contains(part), "{part} in {shown}");
    }
    let id = unit.trim_start_matches("trident-acl-agent-stage-").trim_end_matches(".service");
    ensure!(lab.node.show(unit, "Description").await? == format!("Trident stage {id}"));
    let command = lab.node.show(unit, "ExecStart").await?;
    ensure!(
        command.contains(&format!("argv[]=/usr/bin/{AGENT} operate stage {id} ;")),
        "{command}"
    );
    Ok(())
}

/// The journal has it whole and as it was, in a field of its own; a process never had it as an argument.
fn check_record(lab: &Lab, id: &str) -> Result<()> {
    let records = lab.node.journal(&[&format!("OPERATION_ID={id}")])?;
    ensure!(records.len() > 3, "{records:?}");
    for record in &records {
        ensure!(record["TARGET_VERSION"] == HOSTILE, "{record}");
        let command = record["_CMDLINE"].as_str().unwrap_or_default();
        ensure!(!command.contains("pwned"), "{record}");
    }
    Ok(())
}

/// Ids that would be a path, a unit or an option; line breaks that would end a field.
async fn broken_ones(lab: &Lab) -> Result<()> {
    let stage = || Request::stage(Uuid::new_v4());
    let refused = [
        stage().with("operationId", json!("../../../etc/passwd")),
        stage().with("operationId", json!("ssh.service")),
        stage().with("operationId", json!(format!("{}\n", Uuid::new_v4()))),
        stage().with("targetVersion", json!(FORGED)),
        stage().with(FORGED, json!(FORGED)),
        stage().with("server", json!(format!("https://user:password@x/{FORGED}"))),
    ];
    for request in refused {
        lab.ask(&request)?;
        let update = request.node_update_id().to_owned();
        let answered = move |status: &Value| status["nodeUpdateId"] == update.as_str();
        let status = lab.kube.wait_for_annotation(NODE, STATUS, SOON, answered).await;
        let status = status.with_context(|| lab.story())?;
        ensure!(status["code"] == "InvalidRequest", "{status}");
        let message = status["message"].as_str().context("no message")?;
        ensure!(!message.contains("FORGED") && !message.contains("password"), "{message}");
    }
    Ok(())
}

/// A status is ours, but who may write annotations may write one: it is gone on from where the state is lost.
async fn forged_status(lab: &Lab) -> Result<()> {
    let finalize = Request::finalize(Uuid::new_v4());
    let mut begun = finalize.begun();
    for field in ["message", "fromVersion", "toVersion", "tridentVersion"] {
        begun[field] = json!(FORGED);
    }
    lab.kube.annotate_together(NODE, &[(STATUS, &begun.to_string()), (REQUEST, &finalize.text())]);
    let status = carry_out(lab, &finalize, "OperationFailed").await?;
    ensure!(status["fromVersion"] == FORGED, "{status}");
    // With another operation it is an end that is made up for it.
    let mut other = begun;
    let rollback = Request::rollback(Uuid::new_v4());
    other["operationId"] = json!(rollback.operation_id());
    lab.kube.annotate(NODE, STATUS, Some(&other.to_string()));
    carry_out(lab, &rollback, "AgentInternalError").await?;
    Ok(())
}

/// No unit but those that are ours by their names.
async fn check_units(lab: &Lab, failed: &str) -> Result<()> {
    let listed = lab.node.systemctl(&["list-units", "--all", "--plain", "--no-legend"]).await?;
    let names = listed.stdout.lines().filter_map(|line| line.split_whitespace().next());
    for name in names.filter(|name| name.contains("pwned") || name.starts_with(AGENT)) {
        let rest = name.trim_start_matches(AGENT);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        ensure!(rest.chars().all(plain), "{name}");
    }
    let ran = lab.node.run(&["test", "-e", "/pwned"]).await?;
    ensure!(ran.code == Some(1), "a command was run");
    // The finished unit of the first one was cleared, under its own name.
    ensure!(lab.node.show(failed, "LoadState").await? == "not-found", "{failed}");
    Ok(())
}

async fn check_files(lab: &Lab) -> Result<()> {
    let directory = "/var/lib/trident-acl-agent";
    let listed = lab.node.run(&["ls", "-A", directory]).await?.stdout;
    let names: BTreeSet<_> = listed.split_whitespace().collect();
    let expected = ["state.json", "state.json.lock", "state.json.operation", "state.json.report"];
    // One more while it is written.
    let ours = |name: &str| name == "state.json.new" || expected.contains(&name);
    ensure!(names.iter().all(|name| ours(name)), "{names:?}");
    let state: Value =
        serde_json::from_str(&lab.node.read_file(&format!("{directory}/state.json")).await?)?;
    let completed = state["completed"].as_array().context("nothing is completed")?;
    ensure!(completed.iter().any(|done| done["status"]["toVersion"] == HOSTILE), "{state}");
    Ok(())
}

/// All that this program's records have; what journald adds begins with an underscore.
const FIELDS: [&str; 25] = [
    "CODE",
    "CODE_FILE",
    "CODE_LINE",
    "FAILURES",
    "FROM_VERSION",
    "HELD_BY",
    "MESSAGE",
    "MESSAGE_ID",
    "NODE_UPDATE_ID",
    "ON_TARGET",
    "OPERATION",
    "OPERATION_ID",
    "PRIORITY",
    "RESUMED",
    "SPAN_CODE_FILE",
    "SPAN_CODE_LINE",
    "SPAN_NAME",
    "SPAN_TARGET",
    "STARTS",
    "SYSLOG_IDENTIFIER",
    "TARGET",
    "TARGET_VERSION",
    "TRIES",
    "VERSION",
    "WAITS_FOR",
];

/// Field by field, as whoever ships it elsewhere gets it.
fn check_journal(lab: &Lab) -> Result<()> {
    let fields = lab.node.journal_fields(&["-t", AGENT])?;
    let said = fields.iter().filter(|(name, _)| name == "MESSAGE");
    ensure!(said.clone().count() > 20, "{}", lab.story());
    for (name, value) in &fields {
        let text = String::from_utf8_lossy(value);
        let ours = name.starts_with('_') || FIELDS.contains(&name.as_str());
        ensure!(ours, "a forged field {name}");
        ensure!(
            name != "PRIORITY" || ["3", "4", "6"].contains(&text.as_ref()),
            "a forged priority"
        );
        for secret in ["password", "pathword", "queryword", "fragmentword"] {
            ensure!(!text.contains(secret), "{name}={text}");
        }
    }
    for (_, message) in said {
        let text = String::from_utf8_lossy(message);
        ensure!(!text.chars().any(char::is_control), "{text:?}");
    }
    let watcher = lab.node.journal(&["-u", "trident-acl-agent.service"])?;
    let is_settings = |it: &&Value| it["MESSAGE"].to_string().contains("effective settings");
    let settings = watcher.iter().find(is_settings).context("no settings at start")?;
    ensure!(settings["PRIORITY"] == "6", "{settings}");
    ensure!(
        settings["MESSAGE"].to_string().contains("NEBRASKA_ENDPOINT=https://updates.lab.test ")
    );
    Ok(())
}
