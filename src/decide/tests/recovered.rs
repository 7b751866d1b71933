//! A request that the state file does not know, but the Node does.

use super::case::{
    NEW, OLD, commit_begun, commit_ended, ended, finalize, idle, in_progress, now, request,
    rollback, stage,
};
use crate::contract::{Code, Request, Status};
use crate::decide::{Act, Key, Unit, apply};
use crate::state::LOST_BOOT;

const FAILURES: [Code; 5] = [
    Code::AlreadyAtTarget,
    Code::NotStaged,
    Code::OperationFailed,
    Code::AgentInternalError,
    Code::InvalidRequest,
];

/// In short, what is done.
fn does(request: &Request, status: Status, commit: Option<Status>, version: &str) -> &'static str {
    let mut case = idle().asked(request).says(status).runs(version);
    case.annotations.commit_status = commit;
    match case.plan().act {
        Act::Accept(_) => "run",
        Act::Adopt { commit: None, .. } => "adopt",
        Act::Adopt { commit: Some(_), .. } => "adopt both",
        Act::Recover(recovery) if recovery.on_target => "commit",
        Act::Recover(_) => "find out",
        Act::Complete(_) => "reject",
        other => panic!("{other:?}"),
    }
}

fn status(request: &Request, code: Code) -> Status {
    if code == Code::InProgress { in_progress(request) } else { ended(request, code) }
}

#[test]
fn operation_by_status_by_commit_by_version() {
    let done = |request: &Request| Some(commit_ended(request, Code::Success));
    let failed = |request: &Request| Some(commit_ended(request, Code::TargetBootFailed));
    let begun = |request: &Request| Some(commit_begun(request));
    type Commit<'a> = &'a dyn Fn(&Request) -> Option<Status>;
    let none: Commit<'_> = &|_| None;
    let other: Commit<'_> = &|_| Some(commit_ended(&finalize(92), Code::Success));
    use Code::{InProgress, Success};
    // operation, status, commit status: on the old version, on the new one.
    let table: [(&str, Code, Commit<'_>, &str, &str); 19] = [
        ("stage", InProgress, none, "run", "reject"),
        ("stage", InProgress, other, "run", "reject"),
        ("stage", Success, none, "adopt", "adopt"),
        ("stage", Success, &done, "adopt", "adopt"),
        ("finalize", InProgress, none, "find out", "commit"),
        ("finalize", InProgress, other, "find out", "commit"),
        ("finalize", InProgress, &begun, "find out", "commit"),
        ("finalize", InProgress, &done, "adopt both", "adopt both"),
        ("finalize", Success, none, "find out", "commit"),
        ("finalize", Success, other, "find out", "commit"),
        ("finalize", Success, &begun, "find out", "commit"),
        ("finalize", Success, &done, "adopt both", "adopt both"),
        ("finalize", Success, &failed, "adopt both", "adopt both"),
        ("rollback", InProgress, none, "find out", "commit"),
        ("rollback", Success, none, "find out", "commit"),
        ("rollback", Success, other, "find out", "commit"),
        ("rollback", Success, &begun, "find out", "commit"),
        ("rollback", Success, &done, "adopt both", "adopt both"),
        ("rollback", Success, &failed, "adopt both", "adopt both"),
    ];
    for (operation, code, commit, on_old, on_new) in table {
        let request = request(operation, 12);
        let row = format!("{operation} {code:?} {:?}", commit(&request).map(|it| it.code));
        let does = |version| does(&request, status(&request, code), commit(&request), version);
        assert_eq!((does(OLD), does(NEW)), (on_old, on_new), "{row}");
    }
    for (operation, code) in ["stage", "finalize", "rollback"]
        .iter()
        .flat_map(|operation| FAILURES.into_iter().map(move |code| (*operation, code)))
    {
        let request = request(operation, 12);
        for version in [OLD, NEW] {
            assert_eq!(does(&request, ended(&request, code), None, version), "adopt");
        }
    }
}

/// An id that was used for one operation, and is used for another when the state is lost.
#[test]
fn what_was_begun_under_the_id_counts() {
    let (begun, asked) = (stage(12), finalize(12));
    assert_eq!(does(&asked, in_progress(&begun), None, OLD), "reject", "nothing is staged");
    assert_eq!(does(&asked, ended(&begun, Code::Success), None, OLD), "adopt");
    let case = idle().asked(&begun).says(in_progress(&asked));
    let Act::Adopt { status, commit: None } = case.plan().act else { panic!() };
    assert_eq!(status.code, Code::AgentInternalError, "never in progress for ever");
    assert_eq!(does(&begun, ended(&asked, Code::Success), None, OLD), "adopt");
    let commit = Some(commit_ended(&asked, Code::Success));
    assert_eq!(does(&begun, ended(&asked, Code::Success), commit, OLD), "adopt both");
}

#[test]
fn a_status_of_another_request_proves_nothing() {
    let case = idle().asked(&stage(11)).says(ended(&stage(12), Code::Success));
    assert!(matches!(case.plan().act, Act::Accept(_)));
}

#[test]
fn an_unreadable_version_or_an_unsaid_one_is_not_the_target() {
    let mut case = idle().asked(&finalize(12)).says(in_progress(&finalize(12)));
    case.version = None;
    assert!(matches!(case.plan().act, Act::Recover(recovery) if !recovery.on_target));
    let unsaid = in_progress(&rollback(13)).from_version(None);
    let case = idle().asked(&rollback(13)).says(unsaid).runs(NEW);
    assert!(matches!(case.plan().act, Act::Recover(recovery) if !recovery.on_target));
}

/// Neither recorded nor asked for: nobody else will end it. Only on an idle node.
#[test]
fn what_nobody_knows_is_not_in_progress_for_ever() {
    for lost in [stage(11), finalize(12), rollback(13)] {
        for asked in [idle(), idle().asked(&stage(21)), idle().asked_brokenly("{")] {
            let mut case = asked.says(in_progress(&lost));
            if matches!(case.plan().act, Act::Refuse { .. }) {
                let (plan, seen) = (case.plan(), case.state.clone());
                apply(&mut case.state, &seen, &plan.act, now());
                case.state.refused.as_mut().unwrap().published = true;
            }
            let (plan, seen) = (case.plan(), case.state.clone());
            assert!(apply(&mut case.state, &seen, &plan.act, now()), "{plan:?}");
            let publish = case.plan().say.unwrap();
            assert_eq!(publish.status.operation_id, lost.operation_id);
            assert_eq!(publish.status.code, Code::AgentInternalError);
        }
    }
    let busy = idle().in_flight(&stage(21), 1).unit(crate::decide::Unit::Running);
    super::case::assert_quiet(&busy.says(in_progress(&stage(11))).asked(&stage(21)));
    super::case::assert_quiet(&idle().says(in_progress(&stage(11))).without_node());
}

#[test]
fn a_commit_that_nobody_knows_is_a_lost_commit() {
    for first in [finalize(12), rollback(13)] {
        let armed = ended(&first, Code::Success);
        let other = ended(&stage(21), Code::InvalidRequest);
        let begun = commit_begun(&first);
        let said = |status: &Status| idle().says(status.clone()).says_of_the_commit(begun.clone());
        let known = said(&armed).done(armed.clone(), true);
        for case in [said(&armed), said(&other), known] {
            let mut case = case.asked_brokenly("{");
            let text = "{".to_owned();
            let status = other.clone();
            case.state.refused =
                Some(crate::state::Refused { digest: text, status, published: true });
            let (plan, seen) = (case.plan(), case.state.clone());
            assert!(apply(&mut case.state, &seen, &plan.act, now()), "{plan:?}");
            let done = case.state.find(&first.operation_id).unwrap().clone();
            let commit = done.commit.unwrap();
            assert_eq!(
                (done.status.code, commit.status.code),
                (Code::Success, Code::AgentInternalError)
            );
            assert_eq!(done.status.operation, first.operation().into());
            let publish = case.plan().say.unwrap();
            assert_eq!(
                (publish.key, publish.status.code),
                (Key::CommitStatus, Code::AgentInternalError)
            );
        }
    }
}

#[test]
fn what_is_adopted_is_terminal_and_rests() {
    let request = finalize(12);
    let commit = commit_ended(&request, Code::Success);
    for said in [ended(&request, Code::Success), in_progress(&request)] {
        let mut case = idle().runs(NEW).asked(&request).says(said);
        case.annotations.commit_status = Some(commit.clone());
        let (plan, seen) = (case.plan(), case.state.clone());
        assert!(apply(&mut case.state, &seen, &plan.act, now()));
        let done = case.state.find(&request.operation_id).unwrap().clone();
        assert_eq!(done.status.code, Code::Success);
        assert!(done.is_settled());
        super::case::assert_quiet(&case.says(done.status));
    }
}

#[test]
fn on_the_target_only_the_commit_is_left() {
    let request = finalize(12);
    let mut case = idle().rebooted().runs(NEW).asked(&request).says(in_progress(&request));
    let (plan, seen) = (case.plan(), case.state.clone());
    assert!(apply(&mut case.state, &seen, &plan.act, now()));
    assert_eq!(case.state.operation, None);
    assert_eq!(case.state.pending_commit.as_ref().unwrap().boot_marker, LOST_BOOT);
    let done = case.state.find(&request.operation_id).unwrap();
    assert_eq!((done.status.code, done.published), (Code::Success, false));
    assert!(matches!(case.plan().act, Act::Announce(_)), "never a reboot");
}

#[test]
fn else_the_operation_finds_out_how_far_it_had_come() {
    let request = rollback(13);
    let mut case = idle().asked(&request).says(ended(&request, Code::Success));
    let (plan, seen) = (case.plan(), case.state.clone());
    assert!(apply(&mut case.state, &seen, &plan.act, now()));
    let operation = case.state.operation.clone().unwrap();
    assert_eq!(operation.arming.unwrap().boot_marker, LOST_BOOT);
    assert_eq!((operation.from_version.as_str(), operation.started), (OLD, super::case::earlier()));
    assert_eq!(case.plan().act, Act::Start { resumed: true });
}

/// Who has read the end may have acted on it.
#[test]
fn what_has_ended_by_the_nodes_word_is_not_in_progress_again() {
    for (request, again) in [(finalize(12), false), (rollback(13), false), (rollback(13), true)] {
        let said = if again { in_progress(&request) } else { ended(&request, Code::Success) };
        let mut case = idle().asked(&request).says(said).heartbeat_due();
        let (plan, seen) = (case.plan(), case.state.clone());
        assert!(apply(&mut case.state, &seen, &plan.act, now()));
        let said = case.unit(Unit::Running).plan().say.map(|publish| publish.status.code);
        assert_eq!(said, again.then_some(Code::InProgress), "{request:?}");
    }
}

#[test]
fn nothing_is_recorded_on_another_state_than_was_seen() {
    let case = idle().asked(&stage(11));
    let (plan, seen) = (case.plan(), case.state.clone());
    let mut other = idle().done(ended(&stage(11), Code::Success), false).state;
    let before = other.clone();
    assert!(!apply(&mut other, &seen, &plan.act, now()));
    assert_eq!(other, before);
}
