//! What must hold at the end of a part, wherever it was stopped.

use anyhow::{Context, Result, ensure};
use trident_lab::lab::{COMMIT_STATUS, Lab, NEW, OLD, Request, STATUS};
use trident_lab::nebraska::{DropReason, InstanceStatus};
use trident_lab::trident::proto::v1::ServicingKind;
use trident_lab::trident::{CallRecord, Method, Outcome};

use super::part::target;
use super::row::{Action, Part};
use super::switch::{Hit, OtherSlot};

const DIRECTORY: &str = "/var/lib/trident-acl-agent";
/// What may lie there at rest.
const FILES: [&str; 5] = [
    "nebraska-cookie",
    "state.json",
    "state.json.lock",
    "state.json.operation",
    "state.json.report",
];

/// An armed boot is tried once: cut off before its commit, the node comes back on the slot that it had. That
/// is the one stop that changes the outcome, and the commit's status says so.
pub(crate) fn falls_back(hits: &[Hit]) -> bool {
    hits.iter().any(|hit| hit.slot == OtherSlot::Trying)
}

/// What there was when the part began.
pub(crate) struct Before {
    boots: u32,
    calls: usize,
    omaha: usize,
    dropped: usize,
}

impl Before {
    pub(crate) fn of(lab: &Lab) -> Self {
        Self {
            boots: lab.node.boot_count(),
            calls: lab.trident.calls().len(),
            omaha: lab.nebraska.requests().len(),
            dropped: lab.nebraska.dropped_events().len(),
        }
    }

    /// The one right end.
    pub(crate) async fn judge(
        &self,
        lab: &Lab,
        part: Part,
        request: &Request,
        hits: &[Hit],
    ) -> Result<()> {
        let judged = self.statuses(lab, part, request, hits).and_then(|()| {
            self.boots(lab, part, hits)?;
            self.trident(lab, part, hits)?;
            self.nebraska(lab, part, hits)
        });
        judged.with_context(|| lab.story())?;
        let version = lab.version().await?;
        let other = |version| if version == OLD { NEW } else { OLD };
        let expected = target(part);
        let expected = if falls_back(hits) { other(expected) } else { expected };
        ensure!(version == expected, "the node runs {version}");
        no_litter(lab).await
    }

    /// `InProgress`, then the one outcome; the commit only after what it commits.
    fn statuses(&self, lab: &Lab, part: Part, request: &Request, hits: &[Hit]) -> Result<()> {
        let good = ["InProgress", "Success"];
        let codes = lab.codes(STATUS, request);
        ensure!(codes == good, "{STATUS}: {codes:?}");
        let codes = lab.codes(COMMIT_STATUS, request);
        let expected: &[&str] = match part.reboots() {
            true if falls_back(hits) => &["InProgress", "TargetBootFailed"],
            true => &good,
            false => &[],
        };
        ensure!(codes == expected, "{COMMIT_STATUS}: {codes:?}");
        let published = lab.published();
        let ours = published.iter().filter(|(_, it)| it["operationId"] == request.operation_id());
        let keys: Vec<_> = ours
            .filter(|(key, it)| key == COMMIT_STATUS || it["code"] == "Success")
            .map(|(key, _)| key.as_str())
            .collect();
        ensure!(keys.is_sorted_by_key(|key| *key == COMMIT_STATUS), "{keys:?}");
        Ok(())
    }

    /// A power cut is a boot; where the other slot was armed it is the one that was due.
    fn boots(&self, lab: &Lab, part: Part, hits: &[Hit]) -> Result<()> {
        let cuts = hits.iter().filter(|hit| hit.stop.action == Action::Power).count();
        let due = hits.iter().any(|hit| hit.slot == OtherSlot::Armed);
        let own = u32::from(part.reboots() && !due);
        let expected = self.boots + own + u32::try_from(cuts)?;
        let boots = lab.node.boot_count();
        ensure!(boots == expected, "{boots} boots, not {expected}");
        Ok(())
    }

    fn trident(&self, lab: &Lab, part: Part, hits: &[Hit]) -> Result<()> {
        let calls = lab.trident.calls().split_off(self.calls);
        let calls = |method| calls.iter().filter(move |it| it.method == method).collect::<Vec<_>>();
        let stopped = |who: &str| hits.iter().any(|hit| hit.stop.key.who == who);
        let (stages, arms, kind) = match part {
            Part::Stage => {
                return once(
                    &calls(Method::UpdateStage),
                    ServicingKind::AbUpdate,
                    stopped("stage"),
                );
            }
            Part::Finalize => (None, Method::UpdateFinalize, ServicingKind::AbUpdate),
            Part::Rollback => (
                Some(Method::RollbackStage),
                Method::RollbackFinalize,
                ServicingKind::ManualRollbackAb,
            ),
        };
        if let Some(method) = stages {
            once(&calls(method), kind, stopped("rollback"))?;
        }
        // Never twice: the second is an error that says nothing, or arms what nobody asked for any more.
        once(&calls(arms), kind, false)?;
        let commits = calls(Method::Commit);
        let again = |it: &&&CallRecord| it.outcome != nothing();
        let first: Vec<_> = commits.iter().filter(again).copied().collect();
        match falls_back(hits) {
            false => once(&first, kind, false)?,
            true => ensure!(
                matches!(first[..], [CallRecord { outcome: Some(Outcome::Failed(_)), .. }]),
                "{first:?}"
            ),
        }
        ensure!(commits.len() == 1 || stopped("commit"), "committed again: {commits:?}");
        ensure!(lab.trident.strangers().is_empty());
        Ok(())
    }

    /// Each event once, or more often in a row; the instance is through.
    fn nebraska(&self, lab: &Lab, part: Part, hits: &[Hit]) -> Result<()> {
        let requests = lab.nebraska.requests().split_off(self.omaha);
        let taken = requests.iter().filter(|request| request.processed);
        let mut events: Vec<_> = taken.flat_map(|request| request.events()).collect();
        events.dedup();
        let (expected, status): (&[_], _) = match part {
            Part::Stage => (&[(13, 1), (14, 1)], InstanceStatus::Downloaded),
            Part::Finalize if falls_back(hits) => (&[(800, 1), (3, 0)], InstanceStatus::Error),
            Part::Finalize => (&[(800, 1), (3, 2)], InstanceStatus::Complete),
            Part::Rollback => (&[], InstanceStatus::Complete),
        };
        ensure!(events == expected, "events: {events:?}");
        let instance = lab.nebraska.instance(&lab.machine()?).context("no instance")?;
        ensure!(instance.status == status, "{instance:?}");
        ensure!(instance.update_in_progress == (part == Part::Stage), "{instance:?}");
        let dropped = lab.nebraska.dropped_events().split_off(self.dropped);
        // Taken by the server, and then not recorded as taken.
        let told_again =
            hits.iter().any(|hit| hit.stop.key.who == "report" || hit.stop.action == Action::Power);
        let late = dropped.iter().all(|it| it.reason == DropReason::NoUpdateInProgress);
        ensure!(dropped.is_empty() || (told_again && late), "dropped: {dropped:?}");
        Ok(())
    }
}

fn nothing() -> Option<Outcome> {
    Some(Outcome::Succeeded(ServicingKind::NoneRequired))
}

/// One call did it; others only where `again`, or where they died with the daemon.
fn once(calls: &[&CallRecord], kind: ServicingKind, again: bool) -> Result<()> {
    let good = calls.iter().filter(|it| it.outcome == Some(Outcome::Succeeded(kind))).count();
    let died = calls.iter().filter(|it| it.outcome == Some(Outcome::Aborted)).count();
    ensure!(good == 1 || (again && good > 1), "{calls:?}");
    ensure!(good + died == calls.len(), "{calls:?}");
    Ok(())
}

async fn no_litter(lab: &Lab) -> Result<()> {
    let listed = lab.node.run(&["ls", "-A", DIRECTORY]).await?;
    let litter: Vec<_> = listed.text()?.lines().filter(|name| !FILES.contains(name)).collect();
    ensure!(litter.is_empty(), "left in {DIRECTORY}: {litter:?}");
    Ok(())
}
