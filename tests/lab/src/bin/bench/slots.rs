//! The slot loader on a tree with 32 extensions.
#![allow(clippy::disallowed_methods, reason = "they are the product's rules on files")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use sha2::{Digest, Sha384};

const EXTENSIONS: usize = 32;
/// Sparse: without `slot_verify` only the beginning is read.
const IMAGE_BYTES: u64 = 64 * 1024 * 1024;
const RUNS: usize = 50;

/// Half sysexts, half confexts that systemd mounts itself.
pub(super) fn tree(root: &Path) -> Result<()> {
    let slot = root.join("sysroot/var/trident/extensions/a");
    let mut entries = Vec::new();
    for number in 0..EXTENSIONS {
        let kind = if number % 2 == 0 { "sysext" } else { "confext" };
        let file = format!("{kind}s/image{number}.raw");
        fs::create_dir_all(slot.join(&file).with_file_name(""))?;
        fs::write(slot.join(&file), "hsqs")?;
        fs::File::options().write(true).open(slot.join(&file))?.set_len(IMAGE_BYTES)?;
        let sha384: String = Sha384::digest(&file).iter().map(|it| format!("{it:02x}")).collect();
        let name = format!("image{number}");
        entries.push(json!({
            "kind": kind, "id": name, "name": name, "file": file, "size": IMAGE_BYTES, "sha384": sha384,
            "release": { "ID": "_any", "VERSION_ID": "1", "SYSEXT_ID": name },
        }));
    }
    let manifest =
        json!({ "schemaVersion": "1.0", "slot": "a", "mode": "managed", "extensions": entries });
    fs::write(slot.join("manifest.json"), serde_json::to_vec(&manifest)?)?;
    fs::create_dir_all(root.join("proc"))?;
    fs::write(root.join("proc/cmdline"), "trident.slot=a trident.confext=native")?;
    Ok(())
}

/// The median and the slowest run, from start to exit.
pub(super) fn measure(loader: &Path) -> Result<(Duration, Duration)> {
    let dir = tempfile::tempdir()?;
    tree(dir.path())?;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let run = dir.path().join("run");
        let _ = fs::remove_dir_all(&run);
        fs::create_dir(&run)?;
        let begun = Instant::now();
        let output = Command::new(loader).args(["load", "--root"]).arg(dir.path()).output()?;
        runs.push(begun.elapsed());
        ensure!(output.status.success(), "{output:?}");
        ensure!(fs::read_dir(run.join("extensions"))?.count() == EXTENSIONS / 2);
    }
    runs.sort();
    Ok((runs[RUNS / 2], runs[RUNS - 1]))
}
