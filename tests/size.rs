//! What the resident part costs a node: the release program's size, and the idle watcher's memory.
#![expect(clippy::print_stderr, reason = "the figures are worth a look in the log of a run")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;
use trident_lab::kube::Verb;
use trident_lab::lab::{SOON, Setup, WATCHER};
use trident_lab::node::Release;

const MOST_BYTES: u64 = 8_000_000;
const MOST_LOADER_BYTES: u64 = 1_500_000;
const MOST_RESIDENT_KIB: u64 = 7_000_000 / 1024;

/// What ships: stripped, optimised.
fn release_program() -> PathBuf {
    release("trident-acl-agent")
}

fn release(program: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/release").join(program)
}

#[test]
fn the_release_program_is_small() -> Result<()> {
    at_most(&release_program(), MOST_BYTES)
}

fn at_most(program: &Path, most: u64) -> Result<()> {
    let size = std::fs::metadata(program).context("build it first: make build")?.len();
    eprintln!("{}: {size} bytes", program.display());
    ensure!(size <= most, "{size} bytes are more than {most}");
    Ok(())
}

/// It goes into an initrd: small, and with nothing that is not there.
#[test]
fn the_slot_loader_is_small_and_needs_libc_only() -> Result<()> {
    let loader = release("trident-slot-loader");
    at_most(&loader, MOST_LOADER_BYTES)?;
    let needed = std::process::Command::new("ldd").arg(&loader).output()?;
    let needed = String::from_utf8(needed.stdout)?;
    let names: Vec<_> = needed.split_whitespace().filter(|word| word.contains(".so")).collect();
    let known = ["linux-vdso.so.1", "libgcc_s.so.1", "libc.so.6"];
    let known = |name: &&str| known.contains(name) || name.starts_with('/');
    ensure!(names.len() > 2 && names.iter().all(known), "{needed}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_idle_watcher_is_small() -> Result<()> {
    for release in Release::ALL {
        let lab = Setup::new(release, release_program()).boot().await?;
        lab.kube
            .wait_for_requests(SOON, |requests| {
                requests.iter().any(|request| request.verb == Verb::Watch)
            })
            .await?;
        // The first look at the host comes after the first read of the Node.
        sleep(Duration::from_secs(2)).await;
        let memory = lab.node.memory(WATCHER).await?;
        eprintln!("{release:?}: {memory:?}");
        ensure!(memory.resident <= MOST_RESIDENT_KIB, "{release:?}: {memory:?}");
    }
    Ok(())
}
