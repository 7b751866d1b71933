//! What a request means on a node where nothing is under way.

use super::case::{
    Case, NEW, OLD, assert_quiet, assert_writes, completes, earlier, ended, finalize, id, idle,
    in_progress, now, rollback, stage,
};
use crate::contract::{Code, Id, Phase, Request, Status};
use crate::decide::{Act, Key, Mark, apply};
use crate::state::InFlight;

#[test]
fn nothing_asked_nothing_done() {
    assert_quiet(&idle());
    assert_quiet(&idle().without_node());
}

#[test]
fn a_fresh_request_is_accepted_from_the_version_that_runs() {
    for request in [stage(11), finalize(12), rollback(13)] {
        let plan = idle().staged(&stage(10)).asked(&request).plan();
        let expected = InFlight::new(request.clone(), OLD.to_owned(), now());
        assert_eq!(plan.act, Act::Accept(Box::new(expected)));
        assert_eq!(plan.say, None, "only what is recorded is said");
    }
}

#[test]
fn an_unreadable_version_is_left_to_the_operation() {
    let mut case = idle().asked(&stage(11));
    case.version = None;
    assert!(matches!(case.plan().act, Act::Accept(operation) if operation.from_version.is_empty()));
}

#[test]
fn accepted_then_announced_then_started() {
    let request = stage(11);
    let accepted = idle().asked(&request).in_flight(&request, 0);
    let plan = accepted.plan();
    assert_writes(&plan, Key::Status, &request, Code::InProgress, &Mark::Nothing);
    assert_eq!(plan.act, Act::Wait);
    let plan = accepted.says(in_progress(&request)).plan();
    assert_eq!((plan.say, plan.act), (None, Act::Start { resumed: false }));
}

#[test]
fn announced_means_in_progress_under_its_own_id() {
    let request = stage(11);
    let accepted = idle().asked(&request).in_flight(&request, 0);
    for other in [in_progress(&stage(12)), ended(&request, Code::OperationFailed)] {
        let plan = accepted.clone().says(other).plan();
        assert_writes(&plan, Key::Status, &request, Code::InProgress, &Mark::Nothing);
        assert_eq!(plan.act, Act::Wait);
    }
}

#[test]
fn taken_away_before_its_start_it_is_forgotten() {
    let request = stage(11);
    let accepted = idle().in_flight(&request, 0);
    for case in [accepted.clone(), accepted.clone().asked(&stage(12))] {
        let plan = case.clone().plan();
        assert_eq!((plan.say, plan.act), (None, Act::Withdraw));
        let other = case.says(ended(&stage(12), Code::Success)).plan();
        assert_eq!(other.act, Act::Withdraw);
    }
    assert_quiet(&accepted.without_node());
}

/// A terminal code always follows `InProgress`, also where the request went between it and the start.
#[test]
fn taken_away_after_it_was_announced_it_ends() {
    let request = stage(11);
    let announced = idle().in_flight(&request, 0).says(in_progress(&request));
    assert_quiet(&Case { annotations: idle().without_node().annotations, ..announced.clone() });
    for mut case in [announced.clone(), announced.asked(&finalize(12))] {
        let (plan, seen) = (case.plan(), case.state.clone());
        let status = completes(&plan);
        assert_eq!((plan.say.as_ref(), status.code), (None, Code::OperationFailed));
        assert!(status.message.as_str().contains("taken away"), "{}", status.message);
        assert!(apply(&mut case.state, &seen, &plan.act, now()));
        assert_eq!(case.state.operation, None);
        let mark = Mark::Operation(request.operation_id.clone());
        assert_writes(&case.plan(), Key::Status, &request, Code::OperationFailed, &mark);
    }
}

#[test]
fn a_version_that_runs_already_is_not_updated_to() {
    for request in [stage(11), finalize(12)] {
        let plan = idle().runs(NEW).staged(&stage(10)).asked(&request).plan();
        let status = completes(&plan);
        assert_eq!(status.code, Code::AlreadyAtTarget);
        assert_eq!(status.from_version.as_deref(), Some(NEW));
        assert_eq!(status.to_version.as_deref(), Some(NEW));
        assert_eq!((status.started_utc, status.finished_utc), (now(), Some(now())));
    }
}

#[test]
fn finalize_needs_a_stage_of_its_own_node_update() {
    let request = finalize(12);
    for case in [idle(), idle().staged(&stage(21))] {
        let plan = case.asked(&request).plan();
        assert_eq!(completes(&plan).code, Code::NotStaged);
        assert!(completes(&plan).message.as_str().contains(&id(1).to_string()));
    }
}

#[test]
fn finalize_needs_the_version_that_was_staged() {
    let mut case = idle().staged(&stage(11)).asked(&finalize(12));
    case.state.staged.as_mut().unwrap().update.target_version = "202607.1.0".to_owned();
    let plan = case.plan();
    let status = completes(&plan);
    assert_eq!(status.code, Code::InvalidRequest);
    assert!(status.message.as_str().contains("202607.1.0"), "{}", status.message);
}

#[test]
fn a_server_that_is_not_allowed_is_refused_before_all_else() {
    for request in [stage(11), finalize(12)] {
        let plan = idle().runs(NEW).asked_from_a_forbidden_server(&request).plan();
        let status = completes(&plan);
        assert_eq!(status.code, Code::InvalidRequest);
        assert!(status.message.as_str().contains("https://nebraska.example.com"));
    }
}

#[test]
fn a_rejection_is_recorded_published_and_then_rests() {
    let request = finalize(12);
    let status = completes(&idle().asked(&request).plan()).clone();
    let recorded = idle().asked(&request).done(status.clone(), false);
    let plan = recorded.plan();
    let mark = Mark::Operation(request.operation_id.clone());
    assert_writes(&plan, Key::Status, &request, Code::NotStaged, &mark);
    assert_eq!(plan.act, Act::Wait);
    assert_quiet(&idle().asked(&request).done(status.clone(), true).says(status));
}

#[test]
fn the_same_id_again_is_answered_from_the_record_and_never_run() {
    let request = stage(11);
    let status = ended(&request, Code::OperationFailed);
    let known = idle().asked(&request).done(status.clone(), true);
    for case in [known.clone(), known.clone().says(in_progress(&request))] {
        let plan = case.plan();
        assert_writes(&plan, Key::Status, &request, Code::OperationFailed, &Mark::Nothing);
        assert_eq!(plan.act, Act::Wait);
    }
    assert_quiet(&known.says(status.clone().at(now())));
    // The id alone counts: whatever else the request says, and however the id is spelled.
    let other = finalize(11);
    assert_quiet(&idle().asked(&other).done(status.clone(), true).says(status));
}

/// One whose `operationId` cannot be read is known again by its text.
#[test]
fn a_broken_annotation_is_answered_once() {
    let text = r#"{"operationId":"77","operation":"rollback"}"#;
    let case = idle().asked_brokenly(text);
    let plan = case.plan();
    let Act::Refuse { digest, status } = &plan.act else { panic!("{plan:?}") };
    assert_eq!((digest.as_str(), status.code), (text, Code::InvalidRequest));
    assert_eq!((&status.operation_id, status.operation), (&Id::nil(), Phase::Rollback));
    assert_eq!(status.node_update_id, Id::nil());
    assert!(status.message.as_str().contains("schemaVersion"), "{}", status.message);

    let mut refused = case.clone();
    assert!(apply(&mut refused.state, &case.state, &plan.act, now()));
    let plan = refused.plan();
    assert_eq!(plan.act, Act::Wait);
    let publish = plan.say.unwrap();
    assert_eq!((publish.key, &publish.mark), (Key::Status, &Mark::Refused));
    crate::decide::published(&mut refused.state, &publish);
    assert_quiet(&refused.clone().says(publish.status.clone()));
    // Overwritten, it is said again; taken away, it is not.
    assert_eq!(refused.plan().say.unwrap().mark, Mark::Nothing);
    let corrected = refused.clone().asked(&rollback(13)).says(publish.status);
    assert!(matches!(corrected.plan().act, Act::Accept(_)));
    refused.annotations.asked = idle().annotations.asked;
    assert_quiet(&refused);
    // Another broken text is another question.
    assert!(matches!(refused.asked_brokenly("{}").plan().act, Act::Refuse { .. }));
}

/// The nil id in a status stands for one that could not be read: it answers no request that has it.
#[test]
fn the_answer_to_an_unreadable_id_is_no_answer_to_the_nil_id() {
    let (phase, code) = (Phase::Rollback, Code::InvalidRequest);
    let unread = Status::of(Id::nil(), Id::nil(), phase, earlier()).finish(code, "", earlier());
    let text = serde_json::to_string(&rollback(13)).unwrap();
    let nil = text.replace(&id(13).to_string(), &Id::nil().to_string());
    let case = idle().asked(&Request::parse(&nil).unwrap()).says(unread);
    assert!(matches!(case.plan().act, Act::Accept(_)));
}

/// `InvalidRequest` is terminal: under an id that could be read it is spent, for another text too.
#[test]
fn a_broken_request_spends_its_id() {
    let request = stage(11);
    let whole = serde_json::to_string(&request).unwrap();
    let broken = whole.replace("track", "tracks");
    let mut case = idle().asked_brokenly(&broken);
    let (plan, seen) = (case.plan(), case.state.clone());
    let status = completes(&plan).clone();
    assert_eq!((&status.operation_id, status.code), (&request.operation_id, Code::InvalidRequest));
    assert_eq!(status.node_update_id, request.node_update_id);
    let message = status.message.as_str();
    assert!(message.contains("`track`") && message.contains("new operationId"), "{message}");
    assert!(apply(&mut case.state, &seen, &plan.act, now()));
    let mark = Mark::Operation(request.operation_id.clone());
    let plan = case.plan();
    assert_writes(&plan, Key::Status, &request, Code::InvalidRequest, &mark);
    assert_eq!(plan.act, Act::Wait);
    crate::decide::published(&mut case.state, &plan.say.unwrap());

    let corrected = case.clone().asked(&request);
    let otherwise = case.clone().asked_brokenly(&whole.replace("server", "servers"));
    for known in [case.clone(), corrected.clone(), otherwise] {
        assert_quiet(&known.clone().says(status.clone()));
        assert_eq!(known.says(ended(&stage(12), Code::Success)).plan().act, Act::Wait);
    }
    let plan = corrected.says(ended(&stage(12), Code::Success)).plan();
    assert_writes(&plan, Key::Status, &request, Code::InvalidRequest, &Mark::Nothing);
    // Also by the Node's word alone.
    let lost = idle().asked(&request).says(status);
    assert!(matches!(lost.plan().act, Act::Adopt { .. }));
    let anew = case.asked(&stage(12)).plan();
    assert!(matches!(anew.act, Act::Accept(_)), "under a new id it runs: {anew:?}");
}

#[test]
fn a_broken_annotation_disturbs_no_operation() {
    let request = stage(11);
    let running = idle().in_flight(&request, 1).unit(crate::decide::Unit::Running);
    let case = running.asked_brokenly("{");
    let mut after = case.clone();
    assert!(apply(&mut after.state, &case.state, &case.plan().act, now()));
    assert_eq!(after.state.operation, case.state.operation);
    assert_eq!(after.plan().act, Act::Wait);
}

#[test]
fn a_broken_annotation_changes_no_answer_under_a_known_id() {
    let request = stage(11);
    let broken = format!(r#"{{"operationId":"{}"}}"#, request.operation_id);
    let running = idle().in_flight(&request, 1).unit(crate::decide::Unit::Running);
    assert_quiet(&running.asked_brokenly(&broken));
    let status = ended(&request, Code::Success);
    let done = idle().done(status.clone(), true).asked_brokenly(&broken);
    assert_quiet(&done.clone().says(status));
    assert_writes(&done.plan(), Key::Status, &request, Code::Success, &Mark::Nothing);
    // Before its start it is as good as taken away.
    let waiting = idle().in_flight(&request, 0).asked_brokenly(&broken);
    assert_eq!(waiting.plan().act, Act::Withdraw);
}
