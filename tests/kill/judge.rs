//! What must hold at the end of a part, wherever it was stopped.

use anyhow::{Context, Result, ensure};
use tonic::Code;
use trident_lab::lab::{COMMIT_STATUS, Lab, NEW, OLD, Request, STATUS};
use trident_lab::nebraska::{DropReason, Instance, InstanceStatus};
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
    /// As Nebraska has it; none before the first stage.
    instance: Option<Instance>,
}

impl Before {
    pub(crate) fn of(lab: &Lab) -> Self {
        Self {
            boots: lab.node.boot_count(),
            calls: lab.trident.calls().len(),
            omaha: lab.nebraska.requests().len(),
            dropped: lab.nebraska.dropped_events().len(),
            instance: lab.nebraska.instances().pop(),
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
        if hits.iter().any(|hit| hit.stop.action == Action::Lose) {
            self.lost(lab, part, request, hits)?;
            return no_litter(lab).await;
        }
        let judged = self.statuses(lab, part, request, hits).and_then(|()| {
            self.boots(lab, part, hits)?;
            self.trident(lab, part, hits)?;
            self.nebraska(lab, part, hits)
        });
        judged?;
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

    fn is_stale(&self) -> bool {
        self.instance.as_ref().is_some_and(|it| it.update_in_progress)
    }

    /// Without its memory, the agent goes by what the Node says and what tridentd can account for: one outcome,
    /// never a success that was none, and nothing in progress for ever.
    fn lost(&self, lab: &Lab, part: Part, request: &Request, hits: &[Hit]) -> Result<()> {
        let one_end = |codes: &[String]| match codes {
            [end] => end != "InProgress",
            [begun, end] => begun == "InProgress" && end != begun,
            _ => false,
        };
        let (codes, commit) = (lab.codes(STATUS, request), lab.codes(COMMIT_STATUS, request));
        ensure!(one_end(&codes), "{STATUS}: {codes:?}");
        let armed = part.reboots() && codes.last().is_some_and(|code| code == "Success");
        ensure!(one_end(&commit) || (!armed && commit.is_empty()), "{COMMIT_STATUS}: {commit:?}");
        let booted = lab.trident.booted_slot().version == target(part);
        match (part, commit.last().map(String::as_str)) {
            (Part::Stage, _) => {
                ensure!(codes.last().is_some_and(|it| it == "Success"), "{codes:?}")
            }
            (_, Some("Success")) => ensure!(booted, "a false success"),
            (_, Some("TargetBootFailed")) => {
                ensure!(!booted && falls_back(hits), "a false failure")
            }
            (_, end) => {
                ensure!(!booted, "it is on the target, and the end is {end:?} of {codes:?}")
            }
        }
        // Whether the armed boot was tried is lost too: once more is safe, and the commit tells.
        let most = self.boots + 1 + u32::from(part.reboots()) + u32::from(falls_back(hits));
        ensure!(lab.node.boot_count() <= most, "{} boots", lab.node.boot_count());
        Ok(())
    }

    /// A power cut is a boot; where the other slot was armed it is the one that was due.
    fn boots(&self, lab: &Lab, part: Part, hits: &[Hit]) -> Result<()> {
        let cuts = hits.iter().filter(|hit| hit.stop.action.cuts_power()).count();
        let due = hits.iter().any(|hit| hit.slot == OtherSlot::Armed);
        let own = u32::from(part.reboots() && !due);
        let expected = self.boots + own + u32::try_from(cuts)?;
        let boots = lab.node.boot_count();
        ensure!(boots == expected, "{boots} boots, not {expected}");
        Ok(())
    }

    /// Staged once, and again only where the stage was stopped; the boot armed once; committed once, and asked
    /// again only where the answer was lost: that changes nothing.
    fn trident(&self, lab: &Lab, part: Part, hits: &[Hit]) -> Result<()> {
        let calls = lab.trident.calls().split_off(self.calls);
        let ends = |method| carried_out(&calls, method);
        let stopped = |who: &str| hits.iter().any(|hit| hit.stop.key.who == who);
        let (stage, arm, kind) = match part {
            Part::Stage => (Method::UpdateStage, None, ServicingKind::AbUpdate),
            Part::Finalize => {
                (Method::UpdateStage, Some(Method::UpdateFinalize), ServicingKind::AbUpdate)
            }
            Part::Rollback => (
                Method::RollbackStage,
                Some(Method::RollbackFinalize),
                ServicingKind::ManualRollbackAb,
            ),
        };
        let good = Outcome::Succeeded(kind);
        let stages = ends(stage);
        let most = if stopped("stage") || stopped("rollback") { 3 } else { 1 };
        let own = usize::from(part != Part::Finalize);
        let right =
            stages.iter().all(|it| *it == good) && (own..=most * own).contains(&stages.len());
        ensure!(right, "{stage:?}: {stages:?}");
        let Some(arm) = arm else { return Ok(()) };
        ensure!(ends(arm) == [good.clone()], "{arm:?}: {:?}", ends(arm));
        let commits = ends(Method::Commit);
        let first = match commits.first() {
            Some(Outcome::Failed(_)) => falls_back(hits),
            first => first == Some(&good) && !falls_back(hits),
        };
        let nothing = Outcome::Succeeded(ServicingKind::NoneRequired);
        let again = commits.iter().skip(1).all(|it| *it == nothing && stopped("commit"));
        ensure!(first && again, "committed: {commits:?}");
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
            // The server believes in an update that the state knows nothing of: it is released first.
            Part::Stage if self.is_stale() && events.first() == Some(&(3, 0)) => {
                (&[(3, 0), (13, 1), (14, 1)], InstanceStatus::Downloaded)
            }
            Part::Stage => (&[(13, 1), (14, 1)], InstanceStatus::Downloaded),
            Part::Finalize if falls_back(hits) => (&[(800, 1), (3, 0)], InstanceStatus::Error),
            Part::Finalize => (&[(800, 1), (3, 2)], InstanceStatus::Complete),
            Part::Rollback => {
                (&[], self.instance.as_ref().map_or(InstanceStatus::Undefined, |it| it.status))
            }
        };
        ensure!(events == expected, "events: {events:?}");
        let instance = lab.nebraska.instance(&lab.machine()?).context("no instance")?;
        ensure!(instance.status == status, "{instance:?}");
        let in_progress = match part {
            Part::Stage => true,
            Part::Finalize => false,
            Part::Rollback => self.is_stale(),
        };
        ensure!(instance.update_in_progress == in_progress, "{instance:?}");
        let dropped = lab.nebraska.dropped_events().split_off(self.dropped);
        // Taken by the server, and then not recorded as taken.
        let told_again =
            hits.iter().any(|hit| hit.stop.key.who == "report" || hit.stop.action.cuts_power());
        let late = dropped.iter().all(|it| it.reason == DropReason::NoUpdateInProgress);
        ensure!(dropped.is_empty() || (told_again && late), "dropped: {dropped:?}");
        Ok(())
    }
}

/// How the calls ended that did something. One that died with the daemon, or that a busy one refused, did not.
fn carried_out(calls: &[CallRecord], method: Method) -> Vec<Outcome> {
    let ends = calls.iter().filter(|it| it.method == method).filter_map(|it| it.outcome.clone());
    ends.filter(|end| ![Outcome::Aborted, Outcome::Status(Code::Unavailable)].contains(end))
        .collect()
}

async fn no_litter(lab: &Lab) -> Result<()> {
    let listed = lab.node.run(&["ls", "-A", DIRECTORY]).await?;
    let litter: Vec<_> = listed.text()?.lines().filter(|name| !FILES.contains(name)).collect();
    ensure!(litter.is_empty(), "left in {DIRECTORY}: {litter:?}");
    Ok(())
}
