//! Staging is killed before each call to the kernel that changes something, and what it leaves is looked at.
//! The calls are counted by a trace, so a step that is added is one more place to be killed at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use trident_slots::{Slot, Staged, Tree};

use super::{Host, entry_of, run};

/// Where the process that is killed finds its host.
const HOST: &str = "STAGING_TEST_HOST";
/// The calls that change a file system, as they are named to the tracer.
const CALLS: &str = "mkdir,rmdir,rename,renameat,renameat2,link,linkat,unlink,unlinkat,write,fsync,\
     fallocate,ftruncate,umount2,symlink,copy_file_range,sendfile";

/// More than the test harness writes for one test.
const HARNESS_WRITES: usize = 32;

/// Not a test: the process under the tracer.
#[test]
#[ignore = "run by the tests below"]
fn child() {
    let host = std::env::var_os(HOST).expect("run by the tests below");
    let wanted = fs::read(Path::new(&host).join("wanted.json")).unwrap();
    let staging = trident_slots::Staging {
        tree: Tree::new(&host),
        wanted: serde_json::from_slice(&wanted).unwrap(),
        bundle: None,
        store: None,
        booted: None,
        target: None,
        os_version: None,
        first: false,
        wait: false,
    };
    // The calls of each thread are counted apart, and the harness's own are not to be taken for these.
    for _ in 0..HARNESS_WRITES {
        std::io::stderr().write_all(b".").unwrap();
    }
    run(&staging).unwrap();
}

fn traced(host: &Host, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new("strace");
    command.arg("-f").args(arguments).arg(std::env::current_exe()?);
    command.args(["--ignored", "--exact", "crash::child", "--test-threads=1"]);
    command.env(HOST, host.dir.path());
    command.output().context("strace is not installed: make setup")
}

/// The calls of the thread that stages, in their order: name and line.
fn trace(host: &Host) -> Result<Vec<(String, String)>> {
    let log = host.dir.path().join("trace");
    let calls = format!("trace={CALLS}");
    let output = traced(host, &["-y", "-e", &calls, "-o", log.to_str().context("odd path")?])?;
    ensure!(output.status.success(), "{output:?}");
    let lines = fs::read_to_string(&log)?;
    let stager = lines.lines().find(|line| line.contains(".lock"));
    let stager = stager.and_then(|line| line.split_once(' ')).context("nothing was staged")?.0;
    let own = lines.lines().filter_map(|line| line.strip_prefix(stager).map(str::trim_start));
    let call = |line: &str| Some((line.split_once('(')?.0.to_owned(), line.to_owned()));
    Ok(own.filter_map(call).collect())
}

/// A host whose slot b has an old set, and that wants a new one: one image is reused, two are copied.
fn prepared() -> Result<(Host, Vec<String>, Vec<String>)> {
    let host = Host::new()?;
    let (kept, gone) = (host.sysext("kept", "old")?, host.sysext("gone", "old")?);
    host.stage(json!({ "sysexts": [&kept, &gone] })).unwrap();
    let new = host.sysext("new", "new")?;
    let conf = host.image("confext", "conf", "new", "ID=_any\nCONFEXT_ID=conf\n")?;
    let wanted = json!({ "os": { "sysexts": [&kept, &new], "confexts": [&conf] } });
    host.write("/wanted.json", wanted.to_string())?;
    let old = vec![entry_of(&kept), entry_of(&gone)];
    Ok((host, old, vec![entry_of(&kept), entry_of(&new), entry_of(&conf)]))
}

#[test]
fn killed_before_any_step_each_slot_has_a_whole_set() -> Result<()> {
    let (host, _, _) = prepared()?;
    let ours = host.dir.path().display().to_string();
    let calls = trace(&host)?;
    let changing = calls.iter().filter(|(_, line)| line.contains(&ours)).count();
    ensure!(changing > 25, "the trace shows {changing} steps: {calls:?}");
    let mut counted = BTreeMap::new();
    let (mut before, mut after) = (0, 0);
    for (name, line) in calls {
        let number = counted.entry(name.clone()).or_insert(0);
        *number += 1;
        if !line.contains(&ours) {
            continue;
        }
        let (host, old, new) = prepared()?;
        let kill = format!("inject={name}:signal=KILL:when={number}");
        let killed = traced(&host, &["-e", &format!("trace={name}"), "-e", &kill])?;
        ensure!(killed.status.signal() == Some(9), "not killed before {line}: {killed:?}");
        match host.set(Slot::B) {
            found if found == old => before += 1,
            found if found == new => after += 1,
            found => panic!("killed before {line}: {found:?}"),
        }
        ensure!(host.store().manifest(Slot::A)?.is_none(), "{line}");
        let mut again = host.staging(json!({}));
        again.wanted = serde_json::from_slice(&fs::read(host.at("/wanted.json"))?)?;
        let staged = run(&again).unwrap();
        ensure!(matches!(staged, Staged::Set { extensions: 3, .. }), "{line}: {staged:?}");
        ensure!(host.set(Slot::B) == new, "{line}");
        ensure!(host.leftovers().is_empty(), "{line}: {:?}", host.leftovers());
    }
    ensure!(before > 10 && after > 1, "{before} times the old set, {after} times the new one");
    Ok(())
}

/// A power cut loses what was not flushed: so all of the new set is, before it takes the old one's place.
#[test]
fn all_of_a_set_is_flushed_before_it_is_exchanged() -> Result<()> {
    let (host, _, _) = prepared()?;
    let calls = trace(&host)?;
    let exchange = calls.iter().position(|(_, line)| line.contains("RENAME_EXCHANGE"));
    let (before, after) = calls.split_at(exchange.context("no exchange")?);
    let store = host.at(super::STORE).display().to_string();
    let last = |call: &str, path: &str| {
        before.iter().rposition(|(name, line)| name == call && line.contains(path))
    };
    let flushed = |path: &str| last("fsync", &format!("<{path}>"));
    let flushes_store = |call: Option<&(String, String)>| {
        call.is_some_and(|(name, line)| name == "fsync" && line.contains(&format!("<{store}>")))
    };

    // The mark is on the disk before anything else is touched.
    let marked = last("rename", "slot-loader.pending").context("no mark")?;
    ensure!(flushes_store(before.get(marked + 1)), "{:?}", before.get(marked + 1));
    let made = before.iter().position(|(name, line)| name == "mkdir" && line.contains(".staging-"));
    ensure!(made.is_some_and(|made| made > marked));

    let written =
        before.iter().filter(|(name, line)| name == "write" && line.contains("/.staging-"));
    let written: BTreeSet<_> = written
        .filter_map(|(_, line)| Some(line.split_once('<')?.1.split_once('>')?.0.to_owned()))
        .collect();
    ensure!(written.len() == 3, "{written:?}");
    for path in &written {
        ensure!(flushed(path) > last("write", &format!("<{path}>")), "{path} is not flushed");
    }
    let staging = Path::new(written.first().context("nothing written")?);
    let staging = staging.parent().context("no parent")?.display().to_string();
    for directory in [format!("{staging}/sysexts"), format!("{staging}/confexts")] {
        let filled = last("rename", &format!("{directory}/"));
        ensure!(filled.is_some() && flushed(&directory) > filled, "{directory} is not flushed");
    }
    ensure!(flushed(&staging) > last("write", "manifest.json"), "{staging} is not flushed");
    ensure!(flushes_store(after.get(1)), "{:?}", after.get(1));
    Ok(())
}
