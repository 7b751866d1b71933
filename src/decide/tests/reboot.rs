//! From the armed boot to the outcome of its commit.

use super::case::{
    Case, NEW, OLD, assert_quiet, assert_writes, commit_begun, commit_ended, completes, ended,
    finalize, idle, owed, rollback, stage, unit_ended,
};
use crate::contract::{Code, Phase, Request};
use crate::decide::{Act, Key, Mark, Unit};
use crate::state::EventKind;

/// Armed, its terminal status recorded.
fn armed(request: &Request, published: bool) -> Case {
    let status = ended(request, Code::Success);
    let case = idle().armed(request).asked(request).done(status.clone(), published);
    if published { case.says(status) } else { case }
}

#[test]
fn the_reboot_waits_for_the_terminal_status() {
    for request in [finalize(12), rollback(13)] {
        let plan = armed(&request, false).plan();
        let mark = Mark::Operation(request.operation_id.clone());
        assert_writes(&plan, Key::Status, &request, Code::Success, &mark);
        assert_eq!(plan.act, Act::Wait);
        let plan = armed(&request, true).plan();
        assert_eq!((plan.say, plan.act), (None, Act::Reboot));
    }
}

#[test]
fn but_not_for_ever() {
    let request = finalize(12);
    let waiting = |uptime| armed(&request, false).without_node().uptime(uptime).plan().act;
    assert_eq!(waiting(900 + 599), Act::Wait);
    assert_eq!(waiting(900 + 600), Act::Reboot);
}

#[test]
fn an_armed_boot_whose_request_is_taken_away_is_rebooted_into() {
    let mut case = armed(&finalize(12), true);
    case.annotations.asked = idle().annotations.asked;
    assert_eq!(case.plan().act, Act::Reboot);
}

#[test]
fn while_shutting_down_no_step_is_taken() {
    let request = finalize(12);
    let other = stage(21);
    let event = owed(&request, EventKind::Installed);
    let mut owing = idle();
    owing.state.owe(event);
    let cases = [
        armed(&request, true),
        armed(&request, false).without_node().uptime(9000),
        armed(&request, true).rebooted(),
        armed(&request, true).commit(commit_begun(&request), true, false).rebooted().uptime(9000),
        idle().asked(&other),
        idle().asked(&other).in_flight(&other, 0).says(super::case::in_progress(&other)),
        idle().in_flight(&other, 0),
        idle().in_flight(&other, 1).unit(unit_ended("signal")),
        idle().in_flight(&other, 4).unit(unit_ended("signal")),
        idle().asked(&finalize(12)),
        owing,
    ];
    for case in cases {
        assert_quiet(&case.shutting_down());
    }
}

#[test]
fn another_request_is_refused_until_the_commit_is_done() {
    for first in [finalize(12), rollback(13)] {
        for other in [stage(21), finalize(22), rollback(23)] {
            let before = armed(&first, true).asked(&other);
            let after = before.clone().rebooted();
            let cases =
                [(before.clone(), "reboot"), (before.shutting_down(), "reboot"), (after, "commit")];
            for (case, awaits) in cases {
                let plan = case.plan();
                let status = completes(&plan);
                assert_eq!(status.operation_id, other.operation_id);
                assert_eq!(status.code, Code::InvalidRequest);
                assert!(status.message.as_str().contains(awaits), "{}", status.message);
            }
        }
    }
}

#[test]
fn a_refused_request_does_not_hold_the_reboot() {
    let (first, other) = (finalize(12), stage(21));
    let refused = ended(&other, Code::InvalidRequest);
    let case = armed(&first, true).asked(&other).done(refused, false);
    assert_eq!(case.plan().act, Act::Reboot);
}

#[test]
fn after_the_boot_the_commit_is_announced_under_the_ids_that_caused_it() {
    for request in [finalize(12), rollback(13)] {
        let plan = armed(&request, true).rebooted().runs(NEW).plan();
        let Act::Announce(status) = &plan.act else { panic!("{plan:?}") };
        assert_eq!((status.operation, status.code), (Phase::Commit, Code::InProgress));
        assert_eq!(status.operation_id, request.operation_id);
        assert_eq!(status.node_update_id, request.node_update_id);
        assert_eq!(status.from_version.as_deref(), Some(OLD));
        assert_eq!(status.to_version.as_deref(), request.target_version());
    }
}

#[test]
fn in_progress_is_published_before_the_outcome_however_quick_it_was() {
    let request = finalize(12);
    let success = commit_ended(&request, Code::Success);
    let done = || {
        let status = ended(&request, Code::Success);
        idle().runs(NEW).asked(&request).says(status.clone()).done(status, true)
    };
    let id = || request.operation_id.clone();
    let plan = done().commit(success.clone(), false, false).plan();
    let mark = Mark::CommitAnnounced(id());
    assert_writes(&plan, Key::CommitStatus, &request, Code::InProgress, &mark);
    assert_eq!(super::case::writes(&plan).status.finished_utc, None);
    let plan = done().commit(success.clone(), true, false).plan();
    assert_writes(&plan, Key::CommitStatus, &request, Code::Success, &Mark::Commit(id()));
    assert_quiet(&done().commit(success.clone(), true, true).says_of_the_commit(success));
}

#[test]
fn boot_starts_the_commit_and_only_an_overdue_one_is_started_here() {
    let request = finalize(12);
    let case = armed(&request, true).commit(commit_begun(&request), true, false).rebooted();
    for unit in [Unit::Absent, unit_ended("exit-code")] {
        let mut case = case.clone();
        case.commit_unit = unit;
        assert_quiet(&case.clone().uptime(299));
        assert_eq!(case.uptime(300).plan().act, Act::RunCommit);
    }
    // The power went while the boot was being armed: the resumed operation found it out after the commit ran.
    let mut idled = case.clone();
    idled.commit_unit = unit_ended("success");
    assert_eq!(idled.plan().act, Act::RunCommit);
    let mut running = case.uptime(9000);
    running.commit_unit = Unit::Running;
    assert_quiet(&running);
    let plan = running.heartbeat_due().plan();
    assert_writes(&plan, Key::CommitStatus, &request, Code::InProgress, &Mark::Nothing);
}

#[test]
fn an_overdue_commit_needs_no_node_and_no_record() {
    let case = idle().armed(&finalize(12)).without_node().rebooted().uptime(300);
    assert_eq!(case.plan().act, Act::RunCommit);
}

#[test]
fn a_boot_that_fell_back_is_not_tried_again() {
    for request in [finalize(12), rollback(13)] {
        let status = ended(&request, Code::Success);
        let failed = commit_ended(&request, Code::TargetBootFailed);
        let case = idle().rebooted().asked(&request).done(status.clone(), true).says(status);
        assert_quiet(
            &case.commit(failed.clone(), true, true).says_of_the_commit(failed).staged(&stage(11)),
        );
    }
}
