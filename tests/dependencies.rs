//! A neighbour dies in each phase of an update and of a rollback: both end well all the same, once.

mod booted;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use booted::{QUICK_REPORT, carry_out, committed, expect_code, nothing_is_owed};
use tokio::time::sleep;
use tonic::Code;
use trident_lab::kube::{Fault, Verb};
use trident_lab::lab::{COMMIT_STATUS, Lab, NEW, OLD, Request, SOON, STATUS};
use trident_lab::nebraska::InstanceStatus;
use trident_lab::trident::proto::v1::{LogLevel, ServicingKind};
use trident_lab::trident::{Gate, InFlight, Method, Outcome, Record, Script};
use uuid::Uuid;

booted::on_each_release!(
    tridentd_dies_or_breaks_off_in_each_phase,
    tridentd_floods_the_stream,
    the_api_server_is_away_in_each_phase,
    the_bus_logind_and_the_journal_go_away,
    nebraska_is_away_from_the_first_event_until_after_the_commit,
);

/// The same for a commit that could not ask tridentd.
const QUICK_COMMIT: (&str, &str) = (
    "/etc/systemd/system/trident-acl-agent-commit.service.d/50-quick.conf",
    "[Service]\nRestartSec=1s\n",
);

/// Every call of tridentd that an update and a rollback make, in their order.
const CALLS: [Method; 6] = [
    Method::UpdateStage,
    Method::UpdateFinalize,
    Method::Commit,
    Method::RollbackStage,
    Method::RollbackFinalize,
    Method::Commit,
];

/// Something that befalls the node while a call of tridentd is under way, or how that call goes.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// tridentd dies, and the call with it; it comes back.
    Killed,
    /// tridentd finishes the call, but nobody hears of it.
    Restarted,
    /// Another client's call is under way: it refuses, twice.
    Busy,
    /// The stream ends without an answer; the work is done, or not.
    Cut {
        done: bool,
    },
    /// The API server is away, and comes back when the call is over.
    ApiAway,
    /// The same for a minute.
    ApiAwayForAMinute,
    /// A unit of the system is restarted, or stopped for as long as the call takes.
    Restart(&'static str),
    JournalGone,
}

async fn boot(setup: booted::Setup) -> Result<Lab> {
    [QUICK_REPORT, QUICK_COMMIT]
        .into_iter()
        .fold(setup, |setup, (path, text)| setup.file(path, text))
        .boot()
        .await
}

/// An update and a rollback, the trouble in each call of them.
async fn round(lab: &Lab, trouble: Trouble) -> Result<()> {
    let before = lab.trident.calls().len();
    let boots = lab.node.boot_count();
    let update = Uuid::new_v4();
    let (stage, finalize) = (Request::stage(update), Request::finalize(update));
    let rollback = Request::rollback(update);
    let [staging, arming, committing, unstaging, disarming, recommitting] = CALLS;
    step(lab, &stage, &[staging], trouble).await?;
    step(lab, &finalize, &[arming, committing], trouble).await?;
    ensure!(lab.version().await? == NEW, "not updated");
    step(lab, &rollback, &[unstaging, disarming, recommitting], trouble).await?;
    ensure!(lab.version().await? == OLD, "not rolled back");
    ensure!(lab.node.boot_count() == boots + 2, "{} boots", lab.node.boot_count() - boots);
    for (method, times) in
        [(Method::UpdateFinalize, 1), (Method::RollbackFinalize, 1), (Method::Commit, 2)]
    {
        let calls = lab.trident.calls().split_off(before);
        let worked =
            calls.iter().filter(|it| it.method == method && has_effect(it.outcome.as_ref()));
        let worked = worked.count();
        ensure!(worked <= times, "{method:?} had an effect {worked} times");
    }
    Ok(())
}

fn has_effect(outcome: Option<&Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Succeeded(kind)) if *kind != ServicingKind::NoneRequired)
}

/// Carries a request out, with the trouble in each call that it leads to.
async fn step(lab: &Lab, request: &Request, calls: &[Method], trouble: Trouble) -> Result<()> {
    let gates: Vec<_> = calls.iter().filter_map(|method| prepare(lab, *method, trouble)).collect();
    lab.ask(request)?;
    for gate in gates {
        tokio::time::timeout(SOON, gate.reached()).await.with_context(|| lab.story())?;
        befall(lab, trouble, gate).await?;
    }
    let status = lab.terminal(STATUS, request, SOON).await?;
    expect_code(lab, &status, "Success")?;
    ensure!(lab.codes(STATUS, request) == ["InProgress", "Success"]);
    if calls.contains(&Method::Commit) {
        let status = lab.terminal(COMMIT_STATUS, request, SOON).await?;
        expect_code(lab, &status, "Success")?;
        let codes = lab.codes(COMMIT_STATUS, request);
        ensure!(codes.iter().filter(|code| *code != "InProgress").count() == 1, "{codes:?}");
    }
    Ok(())
}

/// How the call is to go; the gate at which the trouble strikes, where it does not come from the call itself.
fn prepare(lab: &Lab, method: Method, trouble: Trouble) -> Option<Gate> {
    match trouble {
        Trouble::Busy => {
            for _ in 0..2 {
                lab.trident.next(method, Script::new().refuse(Code::Unavailable, "busy"));
            }
            None
        }
        Trouble::Cut { done } => {
            lab.trident.next(method, Script::new().cut(done));
            None
        }
        _ => Some(lab.trident.hold(method, Script::new())),
    }
}

/// The call goes on when it has struck.
async fn befall(lab: &Lab, trouble: Trouble, gate: Gate) -> Result<()> {
    match trouble {
        Trouble::Killed => {
            lab.trident.stop(InFlight::Abort);
            lab.trident.start()
        }
        Trouble::Restarted => {
            lab.trident.stop(InFlight::Finish);
            gate.release();
            lab.trident.start()
        }
        Trouble::ApiAway | Trouble::ApiAwayForAMinute => {
            lab.kube.inject(Fault::Refuse);
            let length = if matches!(trouble, Trouble::ApiAway) { 1 } else { 60 };
            sleep(Duration::from_secs(length)).await;
            gate.release();
            lab.kube.clear_faults();
            Ok(())
        }
        Trouble::Restart(unit) => {
            lab.node.systemctl(&["restart", unit]).await?.text()?;
            gate.release();
            Ok(())
        }
        Trouble::JournalGone => {
            let units = ["systemd-journald.socket", "systemd-journald-dev-log.socket"];
            let stop = [&["stop", "systemd-journald.service"], units.as_slice()].concat();
            lab.node.systemctl(&stop).await?.text()?;
            gate.release();
            Ok(())
        }
        Trouble::Busy | Trouble::Cut { .. } => Ok(()),
    }
}

/// All of them on one node, one after the other; named where one fails.
async fn rounds(lab: &Lab, troubles: &[Trouble]) -> Result<()> {
    for trouble in troubles {
        round(lab, *trouble).await.with_context(|| format!("{trouble:?}\n{}", lab.story()))?;
    }
    Ok(())
}

async fn tridentd_dies_or_breaks_off_in_each_phase(setup: booted::Setup) -> Result<()> {
    let troubles = [
        Trouble::Killed,
        Trouble::Restarted,
        Trouble::Busy,
        Trouble::Cut { done: false },
        Trouble::Cut { done: true },
    ];
    rounds(&boot(setup).await?, &troubles).await
}

async fn the_api_server_is_away_in_each_phase(setup: booted::Setup) -> Result<()> {
    let lab = boot(setup).await?;
    rounds(&lab, &[Trouble::ApiAway]).await?;
    let stage = Request::stage(Uuid::new_v4());
    step(&lab, &stage, &[Method::UpdateStage], Trouble::ApiAwayForAMinute).await
}

async fn the_bus_logind_and_the_journal_go_away(setup: booted::Setup) -> Result<()> {
    let troubles = [
        Trouble::Restart("dbus.service"),
        Trouble::Restart("systemd-logind.service"),
        Trouble::JournalGone,
    ];
    rounds(&boot(setup).await?, &troubles).await
}

/// A hundred thousand records in one call.
async fn tridentd_floods_the_stream(setup: booted::Setup) -> Result<()> {
    let lab = boot(setup).await?;
    let record = Record::new(LogLevel::Info, &"a line as long as such lines are, ".repeat(4));
    lab.trident.next(Method::UpdateStage, Script::new().logs(100_000, record));
    let stage = Request::stage(Uuid::new_v4());
    carry_out(&lab, &stage, "Success").await?;
    // journald drops what a unit says beyond its limit: the operation's own last words must not be among it.
    let records = lab.node.journal(&["-u", &stage.unit()])?;
    let says = |text: &str| records.iter().any(|it| it["MESSAGE"].to_string().contains(text));
    ensure!(says("ended with Success"), "the end is lost: {} records", records.len());
    ensure!(says("records of tridentd out") && records.len() < 10_000, "{} records", records.len());
    Ok(())
}

async fn nebraska_is_away_from_the_first_event_until_after_the_commit(
    setup: booted::Setup,
) -> Result<()> {
    let lab = boot(setup).await?;
    let update = Uuid::new_v4();
    let (stage, finalize) = (Request::stage(update), Request::finalize(update));
    // The offer is the last that is heard of it.
    lab.nebraska.inject(Fault::Refuse.on(Verb::Omaha).after(1));
    carry_out(&lab, &stage, "Success").await?;
    carry_out(&lab, &finalize, "Success").await?;
    committed(&lab, &finalize, "Success").await?;
    lab.nebraska.clear_faults();
    lab.nebraska.wait_for_status(&lab.machine()?, InstanceStatus::Complete, SOON).await?;
    let taken = lab.nebraska.requests().into_iter().filter(|request| request.processed);
    let events: Vec<_> = taken.flat_map(|request| request.events()).collect();
    ensure!(events == [(13, 1), (14, 1), (800, 1), (3, 2)], "{events:?}");
    nothing_is_owed(&lab).await
}
