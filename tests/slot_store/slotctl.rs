//! `trident-slotctl` as a program: what it reads, what it says, how it ends.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::too_many_lines, reason = "a table is as long as its rows")]
#![allow(clippy::disallowed_methods, reason = "they are the product's rules on files")]

mod host;
mod hostile;
mod server;
mod sources;

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use trident_slots::Sha384;

const STORE: &str = "var/trident/extensions";

fn slotctl(root: &Path, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trident-slotctl"));
    command.arg("--root").arg(root).args(arguments).env_remove("TRIDENT_SLOT_LOADER_STORE");
    Ok(command.output()?)
}

/// Runs it, and wants this exit code and this word in what it says.
fn says(root: &Path, arguments: &[&str], code: i32, word: &str) -> Result<String> {
    let output = slotctl(root, arguments)?;
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    ensure!(output.status.code() == Some(code), "{arguments:?}: {output:?}");
    ensure!(said.contains(word), "{arguments:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}

/// On a host without a store, all of them make it.
#[test]
fn many_first_stagings_at_once_wait_for_each_other() -> Result<()> {
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let root = root.path();
    let wanted = wanted(root)?;
    for round in 0..10 {
        let start = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_trident-slotctl"));
            command
                .arg("--root")
                .arg(root)
                .args(["stage", &wanted, "--booted", "a", "--first", "--wait"]);
            command.stderr(std::process::Stdio::piped()).spawn()
        };
        let started = [start()?, start()?, start()?, start()?];
        for process in started {
            let output = process.wait_with_output()?;
            ensure!(output.status.success(), "round {round}: {output:?}");
        }
        std::fs::remove_dir_all(root.join("var"))?;
    }
    Ok(())
}

/// A sysext, and a Host Configuration that wants it.
fn wanted(root: &Path) -> Result<String> {
    let tree = root.join("tree/usr/lib/extension-release.d");
    std::fs::create_dir_all(&tree)?;
    std::fs::write(tree.join("extension-release.tools"), "ID=_any\nSYSEXT_ID=tools\n")?;
    let image = root.join("tools.raw");
    let made = Command::new("mksquashfs").arg(root.join("tree")).arg(&image).arg("-quiet").output();
    let made = made.context("squashfs-tools are not installed: make setup")?;
    ensure!(made.status.success(), "{made:?}");
    let hash = Command::new("sha384sum").arg(&image).output()?;
    let hash: Sha384 = String::from_utf8(hash.stdout)?.split(' ').next().unwrap_or("").parse()?;
    let path = root.join("host-configuration.yaml");
    let text = format!(
        "storage: {{}}\nos:\n  netplan: {{}}\n  extensionMode: acl\n  sysexts:\n  - url: file:///tools.raw\n    \
         sha384: {hash}\n    scope: slotted\n"
    );
    std::fs::write(&path, text)?;
    Ok(path.display().to_string())
}

#[test]
fn a_day_with_it() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let root = dir.path();
    let wanted = wanted(root)?;
    let stage = ["stage", &wanted, "--booted", "a", "--first", "--os-version", "4.1"];
    says(root, &["list"], 1, "no store")?;
    says(root, &["confirm"], 0, "no store")?;
    says(root, &["stage", &wanted, "--first"], 1, "no A/B volumes")?;
    says(root, &["stage", &wanted, "--booted", "a"], 1, "--first")?;
    says(root, &["stage", "/none", "--booted", "a"], 1, "none")?;
    says(root, &["stage"], 2, "Usage")?;
    says(root, &stage, 0, "staged 1 extensions for slot b, 0 of them reused")?;
    says(root, &stage, 0, "1 of them reused")?;
    let listed = says(root, &["list", "--json"], 0, "tools")?;
    let listed: Value = serde_json::from_str(&listed)?;
    ensure!(listed["b"]["osVersion"] == "4.1" && listed["pending"] == "b", "{listed}");
    ensure!(listed["differences"][0]["what"] == "only-in-b", "{listed}");
    says(root, &["list"], 0, "slot b: 1 extensions for 4.1, pending")?;
    says(root, &["prune"], 75, "waits for the boot")?;
    says(root, &["verify"], 0, "as its record says")?;
    says(root, &["confirm"], 0, "confirmed")?;
    says(root, &["confirm"], 0, "nothing was pending")?;
    says(root, &["prune"], 0, "")?;
    std::fs::write(root.join(STORE).join("b/sysexts/tools.raw"), "hsqs")?;
    says(root, &["verify"], 1, "slot b: sysext tools: ")?;
    says(root, &["list", "--store", "/elsewhere"], 1, "no store at /elsewhere")?;

    let lock = std::fs::File::options().write(true).open(root.join(STORE).join(".lock"))?;
    lock.lock()?;
    says(root, &stage, 75, "works on the store")?;
    Ok(())
}

#[test]
fn a_wanted_set_that_is_none_is_refused() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("wanted");
    let table = [
        ("", 1),
        ("[]", 1),
        ("os: {sysexts: [{url: 'file:///x'}]}", 1),
        ("os: {sysexts: [{url: 'file:///x', sha384: abc}]}", 1),
        ("os: {sysexts: [{url: 'file:///x', sha384: abc, scope: slotted, extra: 1}]}", 1),
        ("os: {extensionMode: both}", 1),
        ("os: {}", 0),
        ("storage: {}", 1),
        ("os:", 1),
        ("os: []", 1),
        ("os: [[]]", 1),
        ("{\"os\": {\"sysexts\": []}}", 0),
    ];
    for (text, code) in table {
        std::fs::write(&path, text)?;
        let output = slotctl(dir.path(), &["stage", path.to_str().context("odd path")?])?;
        ensure!(output.status.code() == Some(code), "{text:?}: {output:?}");
    }
    Ok(())
}
