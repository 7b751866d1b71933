//! The loader as a program: its exit codes, and confexts below a really mounted, writable `/etc`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "they are the product's rules on files")]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use common::{Format, make_image, needed, put};
use serde_json::{Value, json};
use sha2::{Digest, Sha384};
use tempfile::TempDir;

const LOADER: &str = env!("CARGO_BIN_EXE_trident-slot-loader");

fn entry(store: &Path, slot: &str, kind: &str, name: &str) -> Result<Value> {
    let file = format!("{kind}s/{name}.raw");
    let bytes = fs::read(store.join(slot).join(&file))?;
    let sha384: String = Sha384::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(json!({
        "kind": kind, "id": name, "name": name, "file": file, "size": bytes.len(), "sha384": sha384,
    }))
}

fn manifest(store: &Path, slot: &str, entries: &[Value]) -> Result<()> {
    let manifest = json!({
        "schemaVersion": "1.0", "slot": slot, "mode": "managed", "extensions": entries,
    });
    put(store.join(slot).join("manifest.json"), manifest.to_string())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_exit_code_says_how_it_ended() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let store = dir.path().join("sysroot/var/trident/extensions");
    put(dir.path().join("proc/cmdline"), "quiet")?;
    put(store.join("a/sysexts/good.raw"), "hsqs")?;
    manifest(&store, "a", &[entry(&store, "a", "sysext", "good")?])?;
    let report = dir.path().join("run/trident/slot-loader.json");
    let root = dir.path().to_str().context("odd path")?;
    let table: [(&[&str], i32, Option<&str>); 9] = [
        (&["load", "--root", root, "--slot", "a"], 0, Some("published")),
        (&["load", "--root", root, "--slot", "b"], 0, Some("nothing")),
        (&["load", "--root", root], 1, Some("failed")),
        (&["recover", "--root", root], 0, None),
        (&["recover", "--root", root, "--store", "/none"], 1, None),
        (&[], 2, None),
        (&["load", "--slot", "c"], 2, None),
        (&["unload"], 2, None),
        (&["--version"], 0, None),
    ];
    for (arguments, code, outcome) in table {
        let output = Command::new(LOADER).args(arguments).output()?;
        ensure!(output.status.code() == Some(code), "{arguments:?}: {output:?}");
        if let Some(outcome) = outcome {
            let report: Value = serde_json::from_slice(&fs::read(&report)?)?;
            ensure!(report["outcome"] == outcome, "{arguments:?}: {report}");
        }
    }
    ensure!(store.join("last-failure.json").is_file());
    Ok(())
}

#[test]
fn a_report_that_cannot_be_written_is_a_failure() -> Result<()> {
    let dir = tempfile::tempdir()?;
    put(dir.path().join("proc/cmdline"), "trident.slot=a")?;
    put(dir.path().join("run"), "a file")?;
    let output = Command::new(LOADER).args(["load", "--root"]).arg(dir.path()).output()?;
    ensure!(output.status.code() == Some(1), "{output:?}");
    ensure!(said(&output).contains("slot-loader.json"), "{output:?}");
    Ok(())
}

/// A real root below `/mnt` of a mount namespace of its own, with a `/run` of its own.
struct Booted {
    dir: TempDir,
}

impl Booted {
    fn new() -> Result<Self> {
        needed()?;
        // On a real file system: an overlay's upper directory cannot lie on another overlay.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let host = Self { dir };
        put(host.root().join("etc/hostname"), "base\n")?;
        put(host.root().join("etc/machine-id"), "0123456789abcdef0123456789abcdef\n")?;
        put(host.root().join("etc/below/file"), "hidden by a mount\n")?;
        put(host.root().join("srv/bound/file"), "of the bind mount\n")?;
        Ok(host)
    }

    fn root(&self) -> std::path::PathBuf {
        self.dir.path().join("root")
    }

    fn store(&self) -> std::path::PathBuf {
        // The link of a test's is the node's own.
        let var = if self.root().join("data/var").exists() { "data/var" } else { "var" };
        self.root().join(var).join("trident/extensions")
    }

    /// A confext with these files below `/etc`.
    fn image(
        &self,
        slot: &str,
        name: &str,
        format: Format,
        files: &[(&str, &str)],
    ) -> Result<Value> {
        let tree = self.dir.path().join("build").join(slot).join(name);
        for (file, text) in files {
            put(tree.join(file), text)?;
        }
        let release = format!("etc/extension-release.d/extension-release.{name}");
        put(tree.join(release), format!("ID=_any\nCONFEXT_ID={name}\n"))?;
        let image = self.store().join(slot).join("confexts").join(format!("{name}.raw"));
        make_image(&tree, &image, format)?;
        entry(&self.store(), slot, "confext", name)
    }

    /// One boot: the loader, then a script in which `$ROOT` is the real root.
    fn boot(&self, slot: &str, script: &str) -> Result<String> {
        let before = "mount -t tmpfs none /run && mount --bind \"$1\" /mnt && export ROOT=/mnt && \
             mount --bind /mnt/srv/bound /mnt/etc/below";
        let script =
            format!("{before} && \"$2\" load --sysroot /mnt --slot {slot} && {{ {script}; }}");
        let output = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-euc", &script, "sh"])
            .arg(self.root())
            .arg(LOADER)
            .output()?;
        ensure!(output.status.success(), "slot {slot}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    }
}

#[test]
fn etc_stays_writable_over_the_confexts_of_each_slot() -> Result<()> {
    let host = Booted::new()?;
    let a = [
        host.image(
            "a",
            "one",
            Format::Squashfs,
            &[("etc/app.conf", "one"), ("etc/hostname", "of one")],
        )?,
        host.image("a", "two", Format::Erofs, &[("etc/app.conf", "two"), ("etc/two.conf", "two")])?,
    ];
    manifest(&host.store(), "a", &a)?;
    let b = [host.image("b", "one", Format::Partitioned, &[("etc/app.conf", "one of b")])?];
    manifest(&host.store(), "b", &b)?;

    let first = host.boot(
        "a",
        "cat $ROOT/etc/app.conf $ROOT/etc/hostname $ROOT/etc/two.conf; echo mine > $ROOT/etc/mine.conf; \
         echo changed > $ROOT/etc/two.conf; cat $ROOT/etc/below/file $ROOT/etc/machine-id",
    )?;
    ensure!(
        first == "oneof onetwoof the bind mount\n0123456789abcdef0123456789abcdef\n",
        "{first}"
    );
    // The host's own directory has nothing of it.
    ensure!(fs::read_to_string(host.root().join("etc/hostname"))? == "base\n");
    ensure!(!host.root().join("etc/mine.conf").exists());

    let second = host.boot(
        "b",
        "cat $ROOT/etc/app.conf $ROOT/etc/hostname $ROOT/etc/mine.conf $ROOT/etc/two.conf",
    )?;
    ensure!(second == "one of bbase\nmine\nchanged\n", "{second}");

    // A set without confexts: what users changed is still seen.
    manifest(&host.store(), "b", &[])?;
    let third = host.boot("b", "cat $ROOT/etc/mine.conf; test ! -e $ROOT/etc/app.conf")?;
    ensure!(third == "mine\n", "{third}");
    Ok(())
}

/// The initrd has a `/data` of its own, or none.
#[test]
fn what_users_change_is_kept_where_the_real_root_will_look() -> Result<()> {
    let host = Booted::new()?;
    fs::create_dir_all(host.root().join("data/var"))?;
    std::os::unix::fs::symlink("/data/var", host.root().join("var"))?;
    let one = host.image("a", "one", Format::Squashfs, &[("etc/app.conf", "one")])?;
    manifest(&host.store(), "a", &[one])?;
    host.boot("a", "echo mine > $ROOT/etc/mine.conf")?;
    let kept = host.root().join("data/var/lib/trident/etc/upper/mine.conf");
    ensure!(fs::read_to_string(kept)? == "mine\n");
    Ok(())
}

#[test]
fn a_confext_that_does_not_mount_is_left_out_or_fails() -> Result<()> {
    let host = Booted::new()?;
    let good = host.image("a", "good", Format::Squashfs, &[("etc/good.conf", "good")])?;
    let no_etc = host.image("a", "odd", Format::Squashfs, &[])?;
    let odd = host.store().join("a/confexts/odd.raw");
    put(&odd, [b"hsqs".as_slice(), &[0; 8188]].concat())?;
    let mut broken = entry(&host.store(), "a", "confext", "odd")?;
    ensure!(broken["sha384"] != no_etc["sha384"]);
    broken["required"] = json!(false);
    manifest(&host.store(), "a", &[broken.clone(), good.clone()])?;
    let said = host.boot("a", "cat $ROOT/etc/good.conf; cat /run/trident/slot-loader.json")?;
    let report = said.strip_prefix("good").context("no good.conf")?;
    let report: Value = serde_json::from_str(report)?;
    ensure!(report["leftOut"][0]["name"] == "odd", "{report}");
    ensure!(report["published"].as_array().is_some_and(|it| it.len() == 1), "{report}");

    broken["required"] = json!(true);
    manifest(&host.store(), "a", &[good, broken])?;
    let failed = host.boot("a", "true").unwrap_err().to_string();
    ensure!(failed.contains("required confext odd"), "{failed}");
    // Nothing of the kind is left mounted, and etc is the host's own.
    let script = "mount -t tmpfs none /run && mount --bind \"$1\" /mnt && ! \"$2\" load --sysroot /mnt --slot a && \
         ! grep -e trident-slots -e /run/trident/confexts /proc/self/mountinfo && cat /mnt/etc/hostname";
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-euc", script, "sh"])
        .arg(host.root())
        .arg(LOADER)
        .output()?;
    ensure!(output.status.success() && output.stdout == b"base\n", "{output:?}");
    Ok(())
}
