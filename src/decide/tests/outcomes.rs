//! Every answer of tridentd, in every call.

use super::case::{NEW, OLD, finalize, rollback};
use crate::contract::{Code, TridentError};
use crate::decide::{
    Answer, Served, Verdict, after_commit, after_finalize, after_rollback_stage, after_stage,
    with_extensions,
};

fn done(served: Served) -> Answer {
    Answer::Done { served, reboot: false }
}

fn other() -> Served {
    Served::Other("a runtime update".to_owned())
}

fn error(subkind: &str) -> TridentError {
    TridentError { kind: "servicing".to_owned(), subkind: subkind.to_owned(), location: None }
}

fn failed(subkind: &str) -> Answer {
    Answer::Failed { error: error(subkind), message: "it broke".to_owned() }
}

fn unknown() -> Answer {
    Answer::Unknown("no answer within 5m".to_owned())
}

const ALL: [fn() -> Served; 5] =
    [|| Served::Unsaid, || Served::Nothing, || Served::AbUpdate, || Served::AbRollback, other];

fn codes(judge: impl Fn(&Answer) -> Code) -> [Code; 5] {
    ALL.map(|served| judge(&done(served())))
}

/// tridentd's own words and its classification are kept; a lack of an answer has no classification.
fn assert_failures(judge: impl Fn(&Answer) -> Verdict) {
    let verdict = judge(&failed("disk-full"));
    assert_eq!(verdict.code, Code::OperationFailed);
    assert_eq!(verdict.trident_error, Some(error("disk-full")));
    assert!(verdict.message.contains("servicing/disk-full"), "{}", verdict.message);
    assert!(verdict.message.contains("it broke"), "{}", verdict.message);
    let verdict = judge(&unknown());
    assert_eq!((verdict.code, verdict.trident_error), (Code::OperationFailed, None));
    assert!(verdict.message.contains("no answer within 5m"), "{}", verdict.message);
}

#[test]
fn staging() {
    use Code::{OperationFailed, Success};
    let judge = |answer: &Answer| after_stage(answer, NEW);
    let expected = [Success, OperationFailed, Success, OperationFailed, OperationFailed];
    assert_eq!(codes(|answer| judge(answer).code), expected);
    assert_failures(judge);
    assert!(judge(&done(Served::AbUpdate)).message.contains(NEW));
    assert!(judge(&done(other())).message.contains("a runtime update"));
}

#[test]
fn staging_a_rollback() {
    let judge = |answer: &Answer| after_rollback_stage(answer);
    assert_eq!(judge(&done(Served::AbRollback)), None);
    for served in [Served::Unsaid, Served::Nothing, Served::AbUpdate, other()] {
        assert_eq!(judge(&done(served)).unwrap().code, Code::OperationFailed);
    }
    assert!(judge(&done(Served::Nothing)).unwrap().message.contains("nothing to roll back"));
    assert_failures(|answer| judge(answer).unwrap());
}

#[test]
fn arming() {
    use Code::{OperationFailed, Success};
    for reboot in [false, true] {
        let judge = |served: fn() -> Served| {
            after_finalize(&Answer::Done { served: served(), reboot }).code
        };
        assert_eq!(ALL.map(judge), [Success, OperationFailed, Success, Success, Success]);
    }
    assert_failures(after_finalize);
    assert!(after_finalize(&unknown()).message.contains("may be armed"));
}

#[test]
fn committing() {
    use Code::Success;
    for request in [finalize(12), rollback(13)] {
        let version = Some(NEW);
        let judge = |answer: &Answer| after_commit(answer, &request, OLD, version);
        assert_eq!(codes(|answer| judge(answer).code), [Success; 5]);
        for served in ALL {
            let again = judge(&Answer::Done { served: served(), reboot: true });
            assert_eq!(again.code, Code::AgentInternalError);
        }
        assert_failures(judge);
        // tridentd's own word needs no proof.
        let unread = after_commit(&done(Served::AbUpdate), &request, OLD, None);
        assert_eq!(unread.code, Success, "{}", unread.message);
    }
}

#[test]
fn what_extensions_make_of_a_boot_is_said_and_changes_no_outcome() {
    for answer in [done(Served::AbUpdate), failed("ab-update-reboot-check"), unknown()] {
        let plain = || after_commit(&answer, &finalize(12), OLD, Some(NEW));
        assert_eq!(with_extensions(plain(), None), plain());
        let told = with_extensions(plain(), Some("they did not load"));
        assert_eq!((told.code, &told.trident_error), (plain().code, &plain().trident_error));
        assert_eq!(told.message, format!("{}; they did not load", plain().message));
    }
}

#[test]
fn a_boot_that_fell_back_is_told_by_tridents_subkinds_and_no_others() {
    let judge = |subkind| after_commit(&failed(subkind), &finalize(12), OLD, Some(OLD));
    let subkinds = [
        "ab-update-reboot-check",
        "ab-update-health-check-commit-check",
        "manual-rollback-reboot-check",
    ];
    for subkind in subkinds {
        let verdict = judge(subkind);
        assert_eq!(verdict.code, Code::TargetBootFailed);
        assert_eq!(verdict.trident_error, Some(error(subkind)));
    }
    for subkind in ["", "unknown", "ab-update-reboot", "AB-UPDATE-REBOOT-CHECK"] {
        assert_eq!(judge(subkind).code, Code::OperationFailed);
    }
}

#[test]
fn nothing_to_commit_is_success_only_where_the_version_proves_it() {
    for (request, from, version, code) in [
        (finalize(12), OLD, NEW, Code::Success),
        (finalize(12), "", NEW, Code::Success),
        (finalize(12), OLD, OLD, Code::TargetBootFailed),
        (finalize(12), OLD, "202607.1.0", Code::AgentInternalError),
        (finalize(12), "", OLD, Code::AgentInternalError),
        (rollback(13), OLD, NEW, Code::Success),
        (rollback(13), OLD, OLD, Code::TargetBootFailed),
        // A version that is not known proves nothing.
        (rollback(13), "", NEW, Code::AgentInternalError),
    ] {
        let verdict = after_commit(&done(Served::Nothing), &request, from, Some(version));
        assert_eq!(verdict.code, code, "{:?} from {from:?} to {version:?}", request.operation());
    }
    for request in [finalize(12), rollback(13)] {
        for (from, version) in [(OLD, None), (OLD, Some("")), ("", None)] {
            let unread = after_commit(&done(Served::Nothing), &request, from, version);
            assert_eq!(unread.code, Code::AgentInternalError);
            assert!(unread.message.contains("cannot be read"), "{}", unread.message);
        }
    }
}
