//! `make demo`: an update and a rollback of a node that really boots, told on a terminal.

mod figures;
mod look;
mod scene;
mod screen;
mod story;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};
use trident_lab::lab::{Lab, Setup};
use trident_lab::node::{Release, missing};

use screen::Screen;

/// Of the whole demo. It takes half a minute, and a minute more where the root file system is made first.
const LIMIT: Duration = Duration::from_secs(600);
/// Of the story alone, so that an overdue one can still show the journal.
const STORY_LIMIT: Duration = Duration::from_secs(240);
/// For a build of the root file system that was cut short.
const GRACE: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let screen = Screen::new();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            screen.failed(&format!("cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let shown = runtime.block_on(bounded(&screen));
    // A thread that waits for a child would keep the process: the child dies with it.
    runtime.shutdown_timeout(GRACE);
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            screen.failed(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Whichever comes first: the end, the limit, or somebody who has seen enough. The lab is dropped in each.
async fn bounded(screen: &Screen) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        shown = show(screen) => shown,
        () = tokio::time::sleep(LIMIT) => bail!("not done after {} s, given up", LIMIT.as_secs()),
        _ = interrupt.recv() => bail!("interrupted; the node is gone"),
        _ = terminate.recv() => bail!("asked to end; the node is gone"),
    }
}

async fn show(screen: &Screen) -> Result<()> {
    let release = release()?;
    let agent = PathBuf::from(
        std::env::var_os("LAB_AGENT")
            .context("LAB_AGENT does not name the program: start the demo by `make demo`")?,
    );
    let size = std::fs::metadata(&agent).with_context(|| format!("no {}", agent.display()))?.len();
    if let Some(missing) = missing() {
        bail!("this machine cannot boot a node: {missing}");
    }
    screen.title("Trident ACL agent: an update and a rollback of one node");
    screen.note("a real Debian with systemd in a container; its Kubernetes API, Nebraska and tridentd are stand-ins");
    let boot = Setup::new(release, agent).boot();
    let lab = screen
        .patiently("boots the node (the very first time its root file system is made)", boot)
        .await?;
    let told = tokio::time::timeout(STORY_LIMIT, tell(&lab, screen, size)).await;
    let told =
        told.unwrap_or_else(|_| bail!("a step is not done after {} s", STORY_LIMIT.as_secs()));
    if told.is_err() {
        screen.title("The agent's journal");
        screen.quote(&lab.story());
    }
    told
}

async fn tell(lab: &Lab, screen: &Screen, size: u64) -> Result<()> {
    let steps = story::tell(lab, screen).await?;
    lab.check_published().context("a published status is not valid")?;
    figures::show(lab, screen, &steps, size).await
}

/// The first argument, else `LAB_RELEASE`, else the newest.
fn release() -> Result<Release> {
    let named = std::env::args_os()
        .nth(1)
        .and_then(|it| it.into_string().ok())
        .or_else(|| std::env::var("LAB_RELEASE").ok());
    let Some(name) = named.filter(|name| !name.is_empty()) else { return Ok(Release::Trixie) };
    let found = Release::ALL.into_iter().find(|release| release.name() == name);
    found.with_context(|| format!("no release {name}: bookworm or trixie"))
}
