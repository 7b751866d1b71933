//! What is written on the Node, in which order, and that it comes to rest.

use super::case::{
    NEW, assert_quiet, assert_writes, commit_begun, commit_ended, ended, finalize, idle,
    in_progress, owed, rollback, stage, unit_ended,
};
use crate::contract::{Code, Phase};
use crate::decide::{Act, Key, Mark, Unit};
use crate::state::EventKind;

#[test]
fn what_is_not_published_goes_oldest_first() {
    let (first, second) = (stage(11), stage(21));
    let mut case = idle()
        .done(ended(&first, Code::OperationFailed), false)
        .done(ended(&second, Code::Success), false);
    for (request, code) in [(first, Code::OperationFailed), (second, Code::Success)] {
        let plan = case.plan();
        let mark = Mark::Operation(request.operation_id.clone());
        assert_writes(&plan, Key::Status, &request, code, &mark);
        crate::decide::published(&mut case.state, &plan.say.unwrap());
    }
    assert_quiet(&case);
}

#[test]
fn outcomes_go_before_announcements_and_commits_after_their_operation() {
    let (first, second) = (finalize(12), stage(21));
    let case = idle()
        .runs(NEW)
        .done(ended(&first, Code::Success), false)
        .commit(commit_ended(&first, Code::Success), false, false)
        .asked(&second)
        .in_flight(&second, 0);
    let plan = case.plan();
    let mark = Mark::Operation(first.operation_id.clone());
    assert_writes(&plan, Key::Status, &first, Code::Success, &mark);
}

#[test]
fn the_commit_key_gets_commits_and_nothing_else() {
    let request = finalize(12);
    let statuses = [
        idle().in_flight(&request, 0).asked(&request),
        idle().done(ended(&request, Code::Success), false),
        idle().asked(&request).done(ended(&request, Code::Success), true),
        idle().in_flight(&request, 1).unit(Unit::Running).heartbeat_due(),
    ];
    for case in statuses {
        let publish = case.plan().say.unwrap();
        assert_eq!((publish.key, publish.status.operation), (Key::Status, Phase::Finalize));
    }
    let done = || idle().done(ended(&request, Code::Success), true);
    let commits = [
        done().commit(commit_begun(&request), false, false),
        done().commit(commit_begun(&request), true, false).heartbeat_due(),
        done().commit(commit_ended(&request, Code::Success), true, false),
        done()
            .commit(commit_ended(&request, Code::Success), true, true)
            .asked(&request)
            .says(ended(&request, Code::Success)),
    ];
    for case in commits {
        let publish = case.plan().say.unwrap();
        assert_eq!((publish.key, publish.status.operation), (Key::CommitStatus, Phase::Commit));
    }
}

#[test]
fn a_heartbeat_is_written_only_when_it_is_due() {
    let request = finalize(12);
    let committing = idle().done(ended(&request, Code::Success), true).commit(
        commit_begun(&request),
        true,
        false,
    );
    assert_quiet(&committing);
    let stage = stage(11);
    assert_quiet(&idle().in_flight(&stage, 1).unit(Unit::Running));
    assert_quiet(&idle().heartbeat_due());
}

#[test]
fn the_answer_to_the_request_on_the_node_stands_there() {
    let request = finalize(12);
    let status = ended(&request, Code::Success);
    let commit = commit_ended(&request, Code::Success);
    let known = idle().runs(NEW).asked(&request).done(status.clone(), true).commit(
        commit.clone(),
        true,
        true,
    );
    let plan = known.clone().says(in_progress(&request)).plan();
    assert_writes(&plan, Key::Status, &request, Code::Success, &Mark::Nothing);
    let plan = known.clone().says(status.clone()).says_of_the_commit(commit_begun(&request)).plan();
    assert_writes(&plan, Key::CommitStatus, &request, Code::Success, &Mark::Nothing);
    assert_quiet(&known.says(status).says_of_the_commit(commit));
}

#[test]
fn the_answer_to_an_older_request_is_not_said_again() {
    let case = idle().done(ended(&stage(11), Code::Success), true);
    assert_quiet(&case);
    let other = ended(&stage(21), Code::OperationFailed);
    assert_quiet(&case.asked(&stage(21)).done(other.clone(), true).says(other));
}

/// A write that was held up on its way may come last.
#[test]
fn in_progress_does_not_outlive_the_outcome() {
    let request = finalize(12);
    let status = ended(&request, Code::Success);
    let commit = commit_ended(&request, Code::Success);
    let known = || idle().runs(NEW).done(status.clone(), true).commit(commit.clone(), true, true);
    let plan = known().says(in_progress(&request)).plan();
    assert_writes(&plan, Key::Status, &request, Code::Success, &Mark::Nothing);
    let plan = known().says(status.clone()).says_of_the_commit(commit_begun(&request)).plan();
    assert_writes(&plan, Key::CommitStatus, &request, Code::Success, &Mark::Nothing);
}

/// Sentences of other operations than the one that is asked for are not cut short.
#[test]
fn the_outcome_of_another_stands_for_a_heartbeat() {
    let (first, refused) = (finalize(12), stage(21));
    let answer = ended(&refused, Code::InvalidRequest);
    let failed = ended(&first, Code::OperationFailed);
    let over = idle().asked(&refused).done(answer.clone(), true).done(failed.clone(), true);
    assert_quiet(&over.clone().says(failed.clone()).just_said());
    let plan = over.clone().says(failed).plan();
    assert_writes(&plan, Key::Status, &refused, Code::InvalidRequest, &Mark::Nothing);
    // Who asks again for what was done is answered at once.
    let again = idle().asked(&stage(11)).done(ended(&stage(11), Code::Success), true);
    let answer = ended(&finalize(12), Code::NotStaged);
    let plan = again.done(answer.clone(), true).says(answer).just_said().plan();
    assert_writes(&plan, Key::Status, &stage(11), Code::Success, &Mark::Nothing);
    // What nobody else is to read waits for nothing.
    let plan = over.clone().just_said().plan();
    assert_writes(&plan, Key::Status, &refused, Code::InvalidRequest, &Mark::Nothing);
    let foreign = ended(&stage(92), Code::Success);
    let plan = over.says(foreign).just_said().plan();
    assert_writes(&plan, Key::Status, &refused, Code::InvalidRequest, &Mark::Nothing);
}

/// Of an armed boot it stands until its commit is done.
#[test]
fn the_outcome_of_an_armed_boot_stands_until_its_commit() {
    for first in [finalize(12), rollback(13)] {
        let refused = stage(21);
        let answer = ended(&refused, Code::InvalidRequest);
        let armed = ended(&first, Code::Success);
        let case =
            || idle().done(answer.clone(), true).done(armed.clone(), true).says(armed.clone());
        let broken = || case().armed(&first).asked_brokenly("{");
        for case in [case().armed(&first).asked(&refused), broken()] {
            assert_eq!(case.plan().say, None);
            assert_eq!(case.rebooted().plan().say, None);
        }
        let begun = commit_begun(&first);
        let waiting = case().commit(begun.clone(), true, false).armed(&first).rebooted();
        assert_quiet(&waiting.asked(&refused).says_of_the_commit(begun));
        let commit = commit_ended(&first, Code::Success);
        let done = case().commit(commit.clone(), true, true).says_of_the_commit(commit);
        let plan = done.asked(&refused).plan();
        assert_writes(&plan, Key::Status, &refused, Code::InvalidRequest, &Mark::Nothing);
    }
}

/// The API server may have had no room for the message: the short status is not written for ever.
#[test]
fn a_status_without_its_message_is_the_same_status() {
    let request = finalize(12);
    let status = ended(&request, Code::Success);
    let commit = commit_ended(&request, Code::OperationFailed);
    assert_quiet(
        &idle()
            .asked(&request)
            .done(status.clone(), true)
            .commit(commit.clone(), true, true)
            .says(status.with_message(""))
            .says_of_the_commit(commit.with_message("")),
    );
}

#[test]
fn events_are_delivered_beside_everything_but_an_operation() {
    let request = stage(11);
    let event = owed(&request, EventKind::DownloadFinished);
    assert!(!idle().plan().deliver, "nothing is owed");
    let mut owing = idle();
    owing.state.owe(event);
    let due = |unit: Unit| {
        let mut case = owing.clone();
        case.report_unit = unit;
        case.plan().deliver
    };
    assert!(due(Unit::Absent) && due(unit_ended("success")));
    assert!(!due(Unit::Running) && !due(unit_ended("exit-code")), "the timer decides");
    assert!(owing.clone().without_node().plan().deliver);
    assert!(owing.clone().armed(&finalize(12)).plan().deliver);
    assert!(!owing.clone().in_flight(&request, 1).plan().deliver);
    let beside = owing.asked(&stage(21)).plan();
    assert!(beside.deliver && matches!(beside.act, Act::Accept(_)));
}
