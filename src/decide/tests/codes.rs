//! Each way to each code, as `docs/contract.md` names them, with the judgment that takes it.
//!
//! Not here, since it is not for this room to judge:
//!
//! | way | code | test |
//! | --- | --- | --- |
//! | Nebraska has no such update, or offers another version | `OperationFailed` | `operations::nebraska_has_no_such_update` |
//! | the running version cannot be read, and the settings say `error` | `OperationFailed` | `version::error_fails_every_operation_before_anything_is_asked` |
//! | each rule of the request table | `InvalidRequest` | `contract::request::tests` |
//! | the reboot could not be triggered | none: it is asked for again, for ever | `operations::a_blocked_reboot_says_who_holds_it` |

use super::case::{
    Case, NEW, NEWER, OLD, commit_begun, ended, finalize, idle, in_progress, now, rollback, stage,
    unit_ended, writes,
};
use crate::contract::{Code, TridentError};
use crate::decide::{
    Act, Answer, Served, after_commit, after_finalize, after_rollback_stage, after_stage, apply,
};

/// What the plan records, adopts or writes.
fn of(case: &Case) -> Code {
    let plan = case.plan();
    match &plan.act {
        Act::Complete(status) | Act::Refuse { status, .. } | Act::Announce(status) => status.code,
        Act::Adopt { status, commit } => commit.as_ref().unwrap_or(status).code,
        _ => writes(&plan).status.code,
    }
}

fn done(served: Served) -> Answer {
    Answer::Done { served, reboot: false }
}

fn asks_for_a_reboot() -> Answer {
    Answer::Done { served: Served::AbUpdate, reboot: true }
}

fn failed(subkind: &str) -> Answer {
    let (kind, subkind) = ("servicing".to_owned(), subkind.to_owned());
    Answer::Failed { error: TridentError { kind, subkind, location: None }, message: String::new() }
}

fn unknown() -> Answer {
    Answer::Unknown("no answer within 20m".to_owned())
}

fn commit(answer: &Answer, version: &str) -> Code {
    after_commit(answer, &finalize(12), OLD, Some(version)).code
}

/// A stage that ended like this, and then the finalize of its update.
fn finalize_after(code: Code) -> Case {
    let case = idle().asked(&finalize(12)).done(ended(&stage(11), code), true);
    if code == Code::Success { case.staged(&stage(11)) } else { case }
}

fn other_version_staged() -> Case {
    let mut case = idle().staged(&stage(11)).asked(&finalize(12));
    case.state.staged.as_mut().unwrap().update.target_version = NEWER.to_owned();
    case
}

fn accepted(case: &Case) -> bool {
    matches!(case.plan().act, Act::Accept(_))
}

type Way = (&'static str, Code, fn() -> Code);

#[rustfmt::skip]
const WAYS: [Way; 47] = [
    ("a request is announced before it runs", Code::InProgress, || of(&idle().asked(&stage(11)).in_flight(&stage(11), 0))),
    ("an operation runs, at each heartbeat", Code::InProgress, || of(&idle().in_flight(&finalize(12), 1).unit(crate::decide::Unit::Running).heartbeat_due())),
    ("a commit begins after the boot", Code::InProgress, || of(&idle().armed(&finalize(12)).done(ended(&finalize(12), Code::Success), true).rebooted())),

    ("a stage is done", Code::Success, || after_stage(&done(Served::AbUpdate), NEW).code),
    ("a finalize armed the boot", Code::Success, || after_finalize(&done(Served::AbUpdate)).code),
    ("a rollback armed the boot", Code::Success, || after_finalize(&done(Served::AbRollback)).code),
    ("the target booted and was promoted", Code::Success, || commit(&done(Served::AbUpdate), NEW)),
    ("the target booted and another had promoted it", Code::Success, || commit(&done(Served::Nothing), NEW)),

    ("stage for the version that runs", Code::AlreadyAtTarget, || of(&idle().runs(NEW).asked(&stage(11)))),
    ("finalize for the version that runs", Code::AlreadyAtTarget, || of(&idle().runs(NEW).staged(&stage(11)).asked(&finalize(12)))),
    ("finalize for it, never staged", Code::AlreadyAtTarget, || of(&idle().runs(NEW).asked(&finalize(12)))),

    ("finalize, nothing was ever staged", Code::NotStaged, || of(&idle().asked(&finalize(12)))),
    ("finalize, another node update was staged", Code::NotStaged, || of(&idle().staged(&stage(21)).asked(&finalize(12)))),
    ("finalize, its stage failed", Code::NotStaged, || of(&finalize_after(Code::OperationFailed))),
    ("finalize, its stage found the version running, which it no longer is", Code::NotStaged, || of(&finalize_after(Code::AlreadyAtTarget))),
    ("finalize, its stage was given up", Code::NotStaged, || of(&finalize_after(Code::AgentInternalError))),

    ("tridentd returned an error to a stage", Code::OperationFailed, || after_stage(&failed("disk-full"), NEW).code),
    ("tridentd did not answer a stage in time", Code::OperationFailed, || after_stage(&unknown(), NEW).code),
    ("tridentd staged nothing", Code::OperationFailed, || after_stage(&done(Served::Nothing), NEW).code),
    ("tridentd staged something else", Code::OperationFailed, || after_stage(&done(Served::AbRollback), NEW).code),
    ("tridentd returned an error to a finalize", Code::OperationFailed, || after_finalize(&failed("x")).code),
    ("tridentd did not answer a finalize in time", Code::OperationFailed, || after_finalize(&unknown()).code),
    ("tridentd had nothing to finalize", Code::OperationFailed, || after_finalize(&done(Served::Nothing)).code),
    ("there is nothing to roll back", Code::OperationFailed, || after_rollback_stage(&done(Served::Nothing)).unwrap().code),
    ("only a runtime update could be rolled back", Code::OperationFailed, || after_rollback_stage(&done(Served::Other("a runtime rollback".to_owned()))).unwrap().code),
    ("tridentd returned an error to a rollback", Code::OperationFailed, || after_rollback_stage(&failed("x")).unwrap().code),
    ("tridentd did not answer a rollback in time", Code::OperationFailed, || after_rollback_stage(&unknown()).unwrap().code),
    ("tridentd returned an error of another kind to a commit", Code::OperationFailed, || commit(&failed("disk-full"), OLD)),
    ("tridentd did not answer a commit in time", Code::OperationFailed, || commit(&unknown(), NEW)),
    ("the request was taken away after its announcement", Code::OperationFailed, || of(&idle().in_flight(&stage(11), 0).says(in_progress(&stage(11))))),

    ("Trident says that the reboot did not reach the target", Code::TargetBootFailed, || commit(&failed("ab-update-reboot-check"), OLD)),
    ("Trident says that the target was not healthy", Code::TargetBootFailed, || commit(&failed("ab-update-health-check-commit-check"), OLD)),
    ("Trident says that the reboot did not reach the slot before", Code::TargetBootFailed, || commit(&failed("manual-rollback-reboot-check"), OLD)),
    ("the node came back and tridentd has forgotten why", Code::TargetBootFailed, || commit(&done(Served::Nothing), OLD)),

    ("a commit asked for another reboot", Code::AgentInternalError, || commit(&asks_for_a_reboot(), NEW)),
    ("nothing to commit, and no version to prove it by", Code::AgentInternalError, || after_commit(&done(Served::Nothing), &finalize(12), OLD, None).code),
    ("the node runs what nobody asked for", Code::AgentInternalError, || commit(&done(Served::Nothing), NEWER)),
    ("the operation's unit was lost four times", Code::AgentInternalError, || of(&idle().in_flight(&stage(11), 4).unit(unit_ended("oom-kill")))),
    ("an in-flight operation was lost", Code::AgentInternalError, || of(&idle().says(in_progress(&finalize(12))))),
    ("an in-flight commit was lost", Code::AgentInternalError, || of(&idle().says_of_the_commit(commit_begun(&finalize(12))))),

    ("the annotation is no JSON", Code::InvalidRequest, || of(&idle().asked_brokenly("{"))),
    ("another schema version", Code::InvalidRequest, || of(&idle().asked_brokenly(r#"{"schemaVersion":"2.0"}"#))),
    ("a missing field, under an id that can be read", Code::InvalidRequest, || of(&idle().asked_brokenly(r#"{"operationId":"00000000-0000-4000-8000-000000000011"}"#))),
    ("finalize of another version than was staged", Code::InvalidRequest, || of(&other_version_staged())),
    ("a server that the settings do not allow", Code::InvalidRequest, || of(&idle().asked_from_a_forbidden_server(&stage(11)))),
    ("a request while a finalize runs", Code::InvalidRequest, || of(&idle().in_flight(&finalize(12), 1).unit(crate::decide::Unit::Running).asked(&stage(21)))),
    ("a second finalize while the first awaits its commit", Code::InvalidRequest, || of(&idle().armed(&finalize(12)).done(ended(&finalize(12), Code::Success), true).staged(&stage(21)).asked(&finalize(22)))),
];

#[test]
fn each_way_that_the_contract_names_ends_with_its_code() {
    for (way, code, judge) in WAYS {
        assert_eq!(judge(), code, "{way}");
    }
}

#[test]
fn each_code_has_its_ways() {
    for code in Code::ALL {
        assert!(WAYS.iter().filter(|(_, of, _)| *of == code).count() >= 3, "{code:?}");
    }
}

/// The other side of the same rules.
#[test]
fn what_may_run_is_accepted() {
    assert!(accepted(&idle().asked(&stage(11))));
    assert!(accepted(&finalize_after(Code::Success)));
    assert!(accepted(&idle().asked(&rollback(13))));
    assert!(accepted(&idle().runs(NEW).asked(&rollback(13))), "a rollback names no version");
    // A stage again of the same update, under a new id.
    assert!(accepted(&idle().staged(&stage(11)).asked(&stage(14))));
}

/// Only where tridentd itself returned an error.
#[test]
fn trident_s_error_stands_where_it_returned_one() {
    let judged = |answer: &Answer| {
        [
            Some(after_stage(answer, NEW)),
            after_rollback_stage(answer),
            Some(after_finalize(answer)),
            Some(after_commit(answer, &finalize(12), OLD, Some(OLD))),
        ]
    };
    for subkind in ["x", "ab-update-reboot-check"] {
        for verdict in judged(&failed(subkind)) {
            assert_eq!(verdict.unwrap().trident_error.unwrap().subkind, subkind);
        }
    }
    let kinds = [Served::Unsaid, Served::Nothing, Served::AbUpdate, Served::AbRollback];
    let answers = kinds.map(done).into_iter().chain([unknown(), asks_for_a_reboot()]);
    for verdict in answers.flat_map(|answer| judged(&answer)).flatten() {
        assert_eq!(verdict.trident_error, None, "{verdict:?}");
    }
    let mut given_up = idle().in_flight(&stage(11), 4).unit(unit_ended("timeout"));
    let (plan, seen) = (given_up.plan(), given_up.state.clone());
    apply(&mut given_up.state, &seen, &plan.act, now());
    assert_eq!(given_up.state.completed[0].status.trident_error, None);
}
