//! Two at once: a second watcher, the timer beside both, and whoever comes first after a boot. One operation, one
//! writer, one outcome.

mod booted;

use anyhow::{Context, Result, ensure};
use booted::{carry_out, committed, eventually};
use trident_lab::lab::{COMMIT_STATUS, Lab, NEW, OLD, Request, SOON, STATUS};
use trident_lab::nebraska::InstanceStatus;
use trident_lab::trident::{Method, Outcome};
use uuid::Uuid;

booted::on_each_release!(two_watchers_and_the_timer_do_everything_once);

const SECOND: (&str, &str) = (
    "/etc/systemd/system/second.service",
    "[Service]\nType=notify\nEnvironment=SSL_CERT_FILE=/etc/lab-ca.pem\nExecStart=/usr/bin/trident-acl-agent\nRestart=always\nRestartSec=100ms\n",
);
/// Beside the watchers, and often.
const TIMER: (&str, &str) = (
    "/etc/systemd/system/trident-acl-agent-reconcile.timer.d/50-quick.conf",
    "[Timer]\nOnBootSec=1s\nOnUnitInactiveSec=100ms\nRandomizedDelaySec=0\nAccuracySec=10ms\n",
);
const BOTH: (&str, &str) = (
    "/etc/systemd/system/multi-user.target.d/50-both.conf",
    "[Unit]\nWants=second.service trident-acl-agent-reconcile.timer\n",
);

/// The last of them to come by has left its settings for the steps.
const SETTINGS: (&str, &str) = (
    "/etc/systemd/system/trident-acl-agent-.service.d/50-lab.conf",
    "[Service]\nEnvironment=SSL_CERT_FILE=/etc/lab-ca.pem\n",
);

async fn two_watchers_and_the_timer_do_everything_once(setup: booted::Setup) -> Result<()> {
    let setup = [SECOND, TIMER, BOTH, SETTINGS]
        .into_iter()
        .fold(setup, |it, (path, text)| it.file(path, text));
    let lab = setup.boot().await?;
    let id = Uuid::new_v4();
    let stage = Request::stage(id);
    all_run(&lab).await?;
    carry_out(&lab, &stage, "Success").await?;
    let finalize = Request::finalize(id);
    carry_out(&lab, &finalize, "Success").await?;
    committed(&lab, &finalize, "Success").await?;
    ensure!(lab.version().await? == NEW && lab.node.boot_count() == 2);
    all_run(&lab).await?;
    let machine = lab.machine()?;
    lab.nebraska.wait_for_status(&machine, InstanceStatus::Complete, SOON).await?;
    let rollback = Request::rollback(id);
    carry_out(&lab, &rollback, "Success").await?;
    committed(&lab, &rollback, "Success").await?;
    ensure!(lab.version().await? == OLD && lab.node.boot_count() == 3);

    for method in [Method::UpdateStage, Method::UpdateFinalize, Method::RollbackFinalize] {
        let ends: Vec<_> = lab.trident.calls_of(method).into_iter().map(|it| it.outcome).collect();
        ensure!(matches!(ends[..], [Some(Outcome::Succeeded(_))]), "{method:?}: {ends:?}");
    }
    ensure!(lab.trident.calls_of(Method::Commit).len() == 2, "{}", lab.story());
    for (key, request) in [
        (STATUS, &stage),
        (STATUS, &finalize),
        (COMMIT_STATUS, &finalize),
        (STATUS, &rollback),
        (COMMIT_STATUS, &rollback),
    ] {
        one_outcome(&lab, key, request)?;
    }
    let events: Vec<_> = lab.nebraska.requests().iter().flat_map(|it| it.events()).collect();
    ensure!(events == [(13, 1), (14, 1), (800, 1), (3, 2)], "{events:?}");
    started_once(&lab, &[&stage, &finalize, &rollback])
}

/// A write of one may be held up and come after another's: then it is written over. It never says another end.
fn one_outcome(lab: &Lab, key: &str, request: &Request) -> Result<()> {
    let codes = lab.codes(key, request);
    let (first, last) = (codes.first().map(String::as_str), codes.last().map(String::as_str));
    ensure!((first, last) == (Some("InProgress"), Some("Success")), "{key}: {codes:?}");
    ensure!(codes.iter().all(|it| it == "InProgress" || it == "Success"), "{key}: {codes:?}");
    Ok(())
}

/// Each operation's process began once, though three wanted to start it.
fn started_once(lab: &Lab, requests: &[&Request]) -> Result<()> {
    for request in requests {
        let records = lab.node.journal(&["-u", &request.unit()])?;
        let begun =
            records.iter().filter(|it| it["MESSAGE"].to_string().contains("running, start"));
        ensure!(begun.count() == 1, "{} was started again\n{}", request.unit(), lab.story());
    }
    Ok(())
}

async fn all_run(lab: &Lab) -> Result<()> {
    for unit in ["trident-acl-agent.service", "second.service"] {
        eventually("a watcher is idle", || async {
            Ok(lab.node.show(unit, "StatusText").await?.starts_with("idle; watching Node"))
        })
        .await
        .context(unit)?;
    }
    let timer = lab.node.show("trident-acl-agent-reconcile.timer", "ActiveState").await?;
    ensure!(timer == "active", "the timer is {timer}");
    Ok(())
}
