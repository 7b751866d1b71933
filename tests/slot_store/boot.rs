//! Slotted extensions on booted nodes: an initrd, a real switch-root, and what systemd merges after it.

#![allow(clippy::disallowed_methods, reason = "they are the product's rules on files")]

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use trident_lab::node::{BOOT_LIMIT, Builder, Layer, Node, Release};
use trident_slots::Sha384;

const STORE: &str = "/var/trident/extensions";
const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../units");
const LOADER_UNIT: &str = "trident-slot-loader.service";
const RECOVERY_UNIT: &str = "trident-slot-loader-recovery.service";
/// Optional sysexts of slot b.
const BROKEN: [&str; 3] = ["missing", "cut", "junk"];

macro_rules! on_each_release {
    ($($name:ident),+ $(,)?) => {
        mod bookworm {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() -> anyhow::Result<()> {
                super::$name(trident_lab::node::Release::Bookworm).await
            })+
        }
        mod trixie {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() -> anyhow::Result<()> {
                super::$name(trident_lab::node::Release::Trixie).await
            })+
        }
    };
}

on_each_release!(each_boot_merges_the_set_of_its_slot, a_failed_load_goes_back_or_is_said);

/// Built by `make build`, or by a plain `cargo build`.
fn loader() -> Result<PathBuf> {
    let beside =
        Path::new(env!("CARGO_BIN_EXE_trident-slotctl")).with_file_name("trident-slot-loader");
    let loader = std::env::var_os("LAB_LOADER").map_or(beside, PathBuf::from);
    ensure!(loader.exists(), "{} is not there: cargo build", loader.display());
    Ok(loader)
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

/// An image of one extension in the node, and its entry in the wanted set.
fn image(layer: &Layer, kind: &str, name: &str, content: &str) -> Result<String> {
    let build = tempfile::tempdir()?;
    let (top, id) = if kind == "sysext" { ("usr/lib", "SYSEXT_ID") } else { ("etc", "CONFEXT_ID") };
    let releases = build.path().join(top).join("extension-release.d");
    std::fs::create_dir_all(&releases)?;
    std::fs::write(build.path().join(top).join(format!("{name}.content")), content)?;
    std::fs::write(
        releases.join(format!("extension-release.{name}")),
        format!("ID=_any\n{id}={name}\n"),
    )?;
    let path = format!("/images/{content}/{name}.raw");
    let image = layer.upper().join(path.trim_start_matches('/'));
    layer.directory(&format!("/images/{content}"))?;
    run(Command::new("mksquashfs").arg(build.path()).arg(&image).args([
        "-quiet",
        "-noappend",
        "-all-root",
    ]))?;
    let hash = run(Command::new("sha384sum").arg(&image))?;
    let hash: Sha384 = hash.split(' ').next().unwrap_or_default().parse()?;
    Ok(format!("{{url: 'file://{path}', sha384: {hash}, scope: slotted}}"))
}

/// Stages a sysext `tools` and a confext `conf` for a slot, both with this content, and more sysexts.
fn staged(layer: &Layer, slot: &str, content: &str, more: &[&str]) -> Result<()> {
    let sysexts = ["tools"].iter().chain(more).map(|name| image(layer, "sysext", name, content));
    let sysexts = sysexts.collect::<Result<Vec<_>>>()?.join(", ");
    let conf = image(layer, "confext", "conf", content)?;
    let wanted = tempfile::NamedTempFile::new()?;
    std::fs::write(wanted.path(), format!("os: {{sysexts: [{sysexts}], confexts: [{conf}]}}"))?;
    let booted = if slot == "a" { "b" } else { "a" };
    let root = layer.upper();
    run(Command::new(env!("CARGO_BIN_EXE_trident-slotctl"))
        .arg("--root")
        .arg(root)
        .arg("stage")
        .arg(wanted.path())
        .args(["--booted", booted, "--first"]))?;
    Ok(())
}

/// The loader and its units. Which slot booted stands in a drop-in: the kernel's command line is this machine's,
/// and a mount over it would give the loader a mount namespace of its own, with its overlay in it.
fn into_initrd(layer: &Layer, slot: &str) -> Result<()> {
    layer.install("/usr/bin/trident-slot-loader", std::fs::read(loader()?)?, 0o755)?;
    for unit in [LOADER_UNIT, RECOVERY_UNIT] {
        let text = std::fs::read(Path::new(UNITS).join(unit))?;
        layer.install(&format!("/usr/lib/systemd/system/{unit}"), text, 0o644)?;
    }
    let wanted = format!("/etc/systemd/system/initrd.target.wants/{LOADER_UNIT}");
    layer.link(&wanted, &format!("/usr/lib/systemd/system/{LOADER_UNIT}"))?;
    let start = format!(
        "[Service]\nExecStart=\nExecStart=/usr/bin/trident-slot-loader load --slot {slot}\n"
    );
    layer.install(&format!("/etc/systemd/system/{LOADER_UNIT}.d/50-lab.conf"), start, 0o644)
}

/// A node with a set for each slot, which merges what it finds.
fn node(release: Release, name: &str, changes: &Path) -> Builder {
    let private = "[Unit]\nDefaultDependencies=no\nBefore=systemd-sysext.service\n\
         [Service]\nType=oneshot\nExecStart=/bin/mount --make-rshared /\n";
    let wants = "/etc/systemd/system/sysinit.target.wants";
    Node::builder(release, name)
        .loops()
        .bind(changes, "/sysroot/var/lib/trident")
        // An artefact of the container: a merge in a private mount would be seen by nobody.
        .file("/etc/systemd/system/lab-shared.service", private, 0o644)
        .link(&format!("{wants}/lab-shared.service"), "../lab-shared.service")
        .link(
            &format!("{wants}/systemd-sysext.service"),
            "/usr/lib/systemd/system/systemd-sysext.service",
        )
        .setup(|layer| {
            layer.directory("/var/lib/trident")?;
            staged(layer, "a", "of-a", &[])?;
            staged(layer, "b", "of-b", &BROKEN)?;
            break_them(layer)
        })
}

/// Makes what is broken in slot b optional: the one is not there, the other cut off, the third no image.
fn break_them(layer: &Layer) -> Result<()> {
    let slot = layer.upper().join(format!(".{STORE}/b"));
    let file = slot.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    for extension in manifest["extensions"].as_array_mut().context("no set")? {
        let broken = BROKEN.iter().any(|name| extension["name"] == *name);
        extension["required"] = Value::from(!broken);
    }
    std::fs::write(&file, manifest.to_string())?;
    let [missing, cut, junk] = BROKEN.map(|name| slot.join(format!("sysexts/{name}.raw")));
    std::fs::remove_file(missing)?;
    std::fs::OpenOptions::new().write(true).open(cut)?.set_len(100)?;
    let size = std::fs::metadata(&junk)?.len();
    // Hard-linked to the source, which stays as it is.
    std::fs::remove_file(&junk)?;
    Ok(std::fs::write(junk, vec![b'x'; usize::try_from(size)?])?)
}

/// On a file system of its own, as an overlay's upper directory must be.
fn changes() -> Result<tempfile::TempDir> {
    Ok(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?)
}

/// A set that a later stager wrote, in a way that this loader does not know.
async fn of_a_newer_version(node: &Node, slot: &str) -> Result<()> {
    let path = format!("{STORE}/{slot}/manifest.json");
    let mut manifest: Value = serde_json::from_str(&node.read_file(&path).await?)?;
    manifest["schemaVersion"] = "2.0".into();
    node.write_file(&path, manifest.to_string()).await
}

async fn report(node: &Node) -> Result<Value> {
    Ok(serde_json::from_str(&node.read_file("/run/trident/slot-loader.json").await?)?)
}

/// Which extensions systemd says are merged over `/usr`.
async fn merged(node: &Node) -> Result<Value> {
    let status = node.run(&["systemd-sysext", "status", "--json=short"]).await?;
    let status: Value = serde_json::from_str(status.text()?)?;
    let usr = status.as_array().and_then(|all| all.iter().find(|it| it["hierarchy"] == "/usr"));
    Ok(usr.context("no /usr")?["extensions"].clone())
}

async fn each_boot_merges_the_set_of_its_slot(release: Release) -> Result<()> {
    let changes = changes()?;
    let node = node(release, "slots", changes.path()).initrd(|number, layer| {
        let slot = if number % 2 == 0 { "b" } else { "a" };
        into_initrd(layer, slot)?;
        // Of a stranger, made before the loader runs.
        let stranger = "[Service]\nExecStartPre=/bin/mkdir -p /run/extensions\n\
             ExecStartPre=/bin/ln -s /nowhere/theirs.raw /run/extensions/theirs.raw\n";
        layer.install(&format!("/etc/systemd/system/{LOADER_UNIT}.d/60-lab.conf"), stranger, 0o644)
    });
    let node = node.boot().await?;
    for (number, content) in [(1, "of-a"), (2, "of-b"), (3, "of-a")] {
        if number > 1 {
            node.reboot().await?;
        }
        let report = report(&node).await?;
        ensure!(report["outcome"] == "published", "{report}");
        let left_out = report["leftOut"].as_array().context("nothing of what is left out")?;
        let left_out: Vec<_> = left_out.iter().filter_map(|it| it["name"].as_str()).collect();
        let broken: &[&str] = if number == 2 { &BROKEN } else { &[] };
        ensure!(left_out == broken, "boot {number}: {report}");
        let merged = merged(&node).await?;
        ensure!(merged == serde_json::json!(["tools"]), "boot {number}: {merged}");
        ensure!(node.read_file("/usr/lib/tools.content").await? == content, "boot {number}");
        ensure!(node.read_file("/etc/conf.content").await? == content, "boot {number}");
        let theirs = node.run(&["readlink", "/run/extensions/theirs.raw"]).await?;
        ensure!(theirs.text()? == "/nowhere/theirs.raw");
        ensure!(node.read_file("/etc/machine-id").await?.trim() == node.machine_id());
        // What a user changes stays, whatever the slot.
        if number == 1 {
            node.write_file("/etc/mine.conf", "mine").await?;
        }
        ensure!(node.read_file("/etc/mine.conf").await? == "mine", "boot {number}");
    }
    of_a_newer_version(&node, "b").await?;
    node.reboot().await?;
    let report = report(&node).await?;
    let reason = report["failure"]["reason"].as_str().unwrap_or_default();
    ensure!(report["outcome"] == "failed" && reason.contains("newer stager"), "{report}");
    ensure!(merged(&node).await? == "none", "{}", merged(&node).await?);
    ensure!(node.run(&["test", "-e", "/etc/conf.content"]).await?.code == Some(1));
    let said = node.run(&["journalctl", "-b", "-u", LOADER_UNIT, "--no-pager"]).await?;
    ensure!(said.text()?.contains("newer stager"), "{}", said.text()?);
    Ok(())
}

/// How a loader fails: each kind at a boot of an update, and again at another boot.
#[derive(Clone, Copy, Debug)]
enum Failing {
    /// A required image is not there.
    Exit,
    /// The kernel kills it, half-way.
    Crash,
    /// The program that mounts a confext never ends.
    Hang,
}

const FAILING: [Failing; 3] = [Failing::Exit, Failing::Crash, Failing::Hang];

impl Failing {
    /// The loader of slot b, failing so; what the recovery keeps is kept apart too.
    fn into_initrd(self, layer: &Layer, number: u32) -> Result<()> {
        // A slot whose set is whole is what the others fail at.
        into_initrd(layer, if matches!(self, Self::Exit) { "b" } else { "a" })?;
        let keep = format!(
            "[Service]\nExecStart=/bin/cp /sysroot{STORE}/last-failure.json \
             /sysroot/var/lib/trident/failure-{number}.json\n"
        );
        layer.install(
            &format!("/etc/systemd/system/{RECOVERY_UNIT}.d/40-lab.conf"),
            keep,
            0o644,
        )?;
        let how = match self {
            Self::Exit => "",
            Self::Crash => "[Service]\nSystemCallFilter=~openat2\n",
            Self::Hang => {
                layer.install("/lab/mount", "#!/bin/sh\nexec /bin/sleep infinity\n", 0o755)?;
                "[Service]\nTimeoutStartSec=1s\nEnvironment=PATH=/lab\n"
            }
        };
        layer.install(&format!("/etc/systemd/system/{LOADER_UNIT}.d/60-lab.conf"), how, 0o644)
    }

    /// systemd's word for it, and one of the reason.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Exit => ("exit-code", "required sysext tools"),
            Self::Crash => ("signal", "did not come to its end"),
            Self::Hang => ("timeout", "did not come to its end"),
        }
    }
}

/// An update's first boot whose load fails: the firmware goes back, and the reason is kept. On any other boot the
/// host comes up without the set, and says so.
async fn a_failed_load_goes_back_or_is_said(release: Release) -> Result<()> {
    let changes = changes()?;
    let builder = node(release, "recovery", changes.path());
    let builder = builder.argument("trident.update_boot=1").setup(|layer| {
        let image = layer.upper().join(format!(".{STORE}/b/sysexts/tools.raw"));
        Ok(std::fs::remove_file(image)?)
    });
    let node = builder.initrd(|number, layer| {
        let kind = FAILING.into_iter().nth((number as usize - 1) % 4);
        match kind {
            Some(failing) => failing.into_initrd(layer, number)?,
            // What a boot before it had stands there still.
            None => {
                into_initrd(layer, "a")?;
                layer.install(
                    &format!("/etc/systemd/system/{LOADER_UNIT}.d/60-lab.conf"),
                    "",
                    0o644,
                )?;
            }
        }
        if number <= 4 {
            return Ok(());
        }
        // Not an update's boot: the condition looks at the arguments of PID 1, which stay here.
        let never = "[Unit]\nConditionPathExists=/never\n";
        layer.install(&format!("/etc/systemd/system/{RECOVERY_UNIT}.d/50-lab.conf"), never, 0o644)
    });
    // The first three do not come up.
    let node = node.start().await?;
    node.wait_boot(4, BOOT_LIMIT).await?;
    ensure!(node.read_file("/usr/lib/tools.content").await? == "of-a");
    for (at, failing) in FAILING.into_iter().enumerate() {
        let kept = changes.path().join(format!("failure-{}.json", at + 1));
        let kept: Value = serde_json::from_slice(&std::fs::read(&kept)?)?;
        let (result, word) = failing.words();
        let reason = kept["reason"].as_str().context("no reason")?;
        ensure!(kept["result"] == result && reason.contains(word), "{failing:?}: {kept}");
        let slot = if matches!(failing, Failing::Exit) { Value::from("b") } else { Value::Null };
        ensure!(kept["slot"] == slot, "{failing:?}: {kept}");
    }

    for (at, failing) in FAILING.into_iter().enumerate() {
        node.reboot().await?;
        ensure!(node.boot_count() as usize == at + 5, "{failing:?}");
        let report = report(&node).await?;
        ensure!(report["outcome"] == "failed", "{failing:?}: {report}");
        let reason = report["failure"]["reason"].as_str().context("no reason")?;
        ensure!(reason.contains(failing.words().1), "{failing:?}: {report}");
        ensure!(
            node.run(&["test", "-e", "/etc/conf.content"]).await?.code == Some(1),
            "{failing:?}"
        );
        // What hangs at a confext has the sysexts behind it.
        let sysexts = if matches!(failing, Failing::Hang) { Some(0) } else { Some(1) };
        let there = node.run(&["test", "-e", "/usr/lib/tools.content"]).await?;
        ensure!(there.code == sysexts, "{failing:?}: {}", merged(&node).await?);
    }
    Ok(())
}
