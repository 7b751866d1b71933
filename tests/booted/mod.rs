//! What tests on a booted node share.
#![allow(dead_code, unused_imports, unused_macros, reason = "each test crate uses its part")]

pub(crate) mod scenario;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use trident_lab::kube::ApiServer;
pub(crate) use trident_lab::lab::Setup;
use trident_lab::lab::{COMMIT_STATUS, Lab, NEW, Request, SOON};
use trident_lab::node::Release;
use uuid::Uuid;

/// So that a test need not wait for minutes.
pub(crate) const QUICK_REPORT: (&str, &str) = (
    "/etc/systemd/system/trident-acl-agent-report.timer.d/50-quick.conf",
    "[Timer]\nOnBootSec=1s\nOnUnitInactiveSec=1s\nRandomizedDelaySec=0\nAccuracySec=100ms\n",
);

/// A lab with the program under test: the one named by `LAB_AGENT`, else this build's.
pub(crate) fn setup(release: Release) -> Setup {
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_trident-acl-agent"));
    Setup::new(release, std::env::var_os("LAB_AGENT").map_or_else(built, PathBuf::from))
}

/// Makes each function a test on systemd 252 and on 257.
macro_rules! on_each_release {
    ($($name:ident),+ $(,)?) => {
        mod bookworm {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() -> anyhow::Result<()> {
                super::$name(super::booted::setup(trident_lab::node::Release::Bookworm)).await
            })+
        }
        mod trixie {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() -> anyhow::Result<()> {
                super::$name(super::booted::setup(trident_lab::node::Release::Trixie)).await
            })+
        }
    };
}
pub(crate) use on_each_release;

/// Fails with the agent's journal where the code is another.
pub(crate) fn expect_code<K: ApiServer>(lab: &Lab<K>, status: &Value, code: &str) -> Result<()> {
    ensure!(status["code"] == code, "expected {code}: {status}\n{}", lab.story());
    Ok(())
}

/// Carries a request out to this terminal code.
pub(crate) async fn carry_out<K: ApiServer>(
    lab: &Lab<K>,
    request: &Request,
    code: &str,
) -> Result<Value> {
    let status = lab.carry_out(request, SOON).await?;
    expect_code(lab, &status, code)?;
    Ok(status)
}

/// Waits for the commit that follows a finalize or rollback, with this code.
pub(crate) async fn committed<K: ApiServer>(
    lab: &Lab<K>,
    request: &Request,
    code: &str,
) -> Result<Value> {
    let status = lab.terminal(COMMIT_STATUS, request, SOON).await?;
    expect_code(lab, &status, code)?;
    Ok(status)
}

/// A whole update to the new version; the finalize that did it.
pub(crate) async fn update<K: ApiServer>(lab: &Lab<K>) -> Result<Request> {
    let id = Uuid::new_v4();
    carry_out(lab, &Request::stage(id), "Success").await?;
    let finalize = Request::finalize(id);
    carry_out(lab, &finalize, "Success").await?;
    committed(lab, &finalize, "Success").await?;
    ensure!(lab.version().await? == NEW);
    Ok(finalize)
}

/// Waits until no event is owed to Nebraska.
pub(crate) async fn nothing_is_owed(lab: &Lab) -> Result<()> {
    eventually("nothing is owed", || async {
        let state = lab.node.read_file("/var/lib/trident-acl-agent/state.json").await?;
        let state: Value = serde_json::from_str(&state)?;
        Ok(state["owedEvents"] == json!([]))
    })
    .await
}

/// Waits until something is so, by looking again and again.
pub(crate) async fn eventually<F>(what: &str, mut is_so: impl FnMut() -> F) -> Result<()>
where
    F: Future<Output = Result<bool>>,
{
    let begun = Instant::now();
    while !is_so().await? {
        ensure!(begun.elapsed() < SOON, "never: {what}");
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
