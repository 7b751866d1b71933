//! What a call has brought about.

use super::error::{Error, Failure, Location};
use super::redact;
use super::wire::v1::{self, Completed, StatusCode, TridentError, TridentErrorKind};
use super::wire::v1preview;

/// What tridentd uses, and we too, where a failure has no classification.
const UNKNOWN: &str = "unknown";

/// A call that tridentd reports as a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// What was done; success alone does not say that anything was.
    pub kind: ServicingKind,
    /// Whether a reboot is due.
    pub reboot: RebootStatus,
}

/// What kind of servicing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServicingKind {
    /// The daemon did not say.
    Absent,
    /// Nothing was to do.
    NoneRequired,
    /// An update of the running system.
    RuntimeUpdate,
    /// An update on the other volume.
    AbUpdate,
    /// A clean install.
    CleanInstall,
    /// The way back to the other volume.
    ManualRollbackAb,
    /// The way back on the running system.
    ManualRollbackRuntime,
    /// A number that this agent does not know.
    Unknown(i32),
}

/// Whether a reboot is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebootStatus {
    /// The daemon did not say.
    Absent,
    /// No reboot is needed.
    NotRequired,
    /// The caller is to reboot.
    Required,
    /// The daemon is rebooting the host.
    Started,
    /// A number that this agent does not know.
    Unknown(i32),
}

/// Where the daemon stands between two servicings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServicingState {
    /// The daemon did not say, or with a number that this agent does not know.
    Unknown,
    /// Not installed by Trident.
    NotProvisioned,
    /// An install is staged.
    InstallStaged,
    /// An A/B update is staged.
    UpdateAbStaged,
    /// An A/B rollback is staged.
    ManualRollbackAbStaged,
    /// A runtime rollback is staged.
    ManualRollbackRuntimeStaged,
    /// A runtime update is staged.
    UpdateRuntimeStaged,
    /// An install awaits its reboot.
    InstallFinalized,
    /// An A/B update awaits its reboot and commit.
    UpdateAbFinalized,
    /// An A/B rollback awaits its reboot and commit.
    ManualRollbackAbFinalized,
    /// Nothing is under way.
    Provisioned,
    /// The updated system failed its health checks.
    UpdateAbHealthCheckFailed,
}

/// The result in `completed`: a success, or tridentd's own account of the failure.
pub(super) fn read(what: &'static str, completed: Completed) -> Result<Served, Error> {
    match completed.status() {
        StatusCode::Success => Ok(Served {
            kind: kind(completed.servicing_kind),
            reboot: reboot(completed.reboot_status),
        }),
        // An unspecified status is no success: nothing says that the work was done.
        StatusCode::Failure | StatusCode::Unspecified => {
            Err(Error::Failed(failure(what, completed.error)))
        }
    }
}

fn kind(wire: Option<i32>) -> ServicingKind {
    let Some(number) = wire else {
        return ServicingKind::Absent;
    };
    match v1::ServicingKind::try_from(number) {
        Ok(v1::ServicingKind::Unspecified) => ServicingKind::Absent,
        Ok(v1::ServicingKind::NoneRequired) => ServicingKind::NoneRequired,
        Ok(v1::ServicingKind::RuntimeUpdate) => ServicingKind::RuntimeUpdate,
        Ok(v1::ServicingKind::AbUpdate) => ServicingKind::AbUpdate,
        Ok(v1::ServicingKind::CleanInstall) => ServicingKind::CleanInstall,
        Ok(v1::ServicingKind::ManualRollbackAb) => ServicingKind::ManualRollbackAb,
        Ok(v1::ServicingKind::ManualRollbackRuntime) => ServicingKind::ManualRollbackRuntime,
        Err(_) => ServicingKind::Unknown(number),
    }
}

fn reboot(number: i32) -> RebootStatus {
    match v1::RebootStatus::try_from(number) {
        Ok(v1::RebootStatus::Unspecified) => RebootStatus::Absent,
        Ok(v1::RebootStatus::RebootNotRequired) => RebootStatus::NotRequired,
        Ok(v1::RebootStatus::RebootRequired) => RebootStatus::Required,
        Ok(v1::RebootStatus::RebootStarted) => RebootStatus::Started,
        Err(_) => RebootStatus::Unknown(number),
    }
}

fn failure(what: &'static str, error: Option<TridentError>) -> Failure {
    let Some(error) = error else {
        let message = "no structured error was given".to_owned();
        return Failure {
            what,
            kind: UNKNOWN.into(),
            subkind: UNKNOWN.into(),
            message,
            location: None,
        };
    };
    let kind = match TridentErrorKind::try_from(error.kind) {
        Ok(TridentErrorKind::Unspecified) | Err(_) => UNKNOWN.to_owned(),
        Ok(kind) => kind.as_str_name().to_owned(),
    };
    let subkind =
        if error.subkind.is_empty() { UNKNOWN.to_owned() } else { redact::word(&error.subkind) };
    let location = error
        .location
        .as_ref()
        .map(|location| Location { path: redact::word(&location.path), line: location.line });
    Failure { what, kind, subkind, message: message(&error), location }
}

/// The short text and the detailed one, each once.
fn message(error: &TridentError) -> String {
    let (short, long) = (error.message.trim(), error.error_message.trim());
    let text = match (short.is_empty(), long.is_empty()) {
        (true, true) => "no message was given".to_owned(),
        (true, false) => long.to_owned(),
        (false, true) => short.to_owned(),
        (false, false) if long.contains(short) => long.to_owned(),
        (false, false) if short.contains(long) => short.to_owned(),
        (false, false) => format!("{short}: {long}"),
    };
    redact::text(&text)
}

impl ServicingState {
    pub(super) fn from_wire(state: v1preview::ServicingState) -> ServicingState {
        use v1preview::ServicingState as Wire;
        match state {
            Wire::Unspecified => ServicingState::Unknown,
            Wire::NotProvisioned => ServicingState::NotProvisioned,
            Wire::InstallStaged => ServicingState::InstallStaged,
            Wire::UpdateAbStaged => ServicingState::UpdateAbStaged,
            Wire::ManualRollbackAbStaged => ServicingState::ManualRollbackAbStaged,
            Wire::ManualRollbackRuntimeStaged => ServicingState::ManualRollbackRuntimeStaged,
            Wire::UpdateRuntimeStaged => ServicingState::UpdateRuntimeStaged,
            Wire::InstallFinalized => ServicingState::InstallFinalized,
            Wire::UpdateAbFinalized => ServicingState::UpdateAbFinalized,
            Wire::ManualRollbackAbFinalized => ServicingState::ManualRollbackAbFinalized,
            Wire::Provisioned => ServicingState::Provisioned,
            Wire::UpdateAbHealthCheckFailed => ServicingState::UpdateAbHealthCheckFailed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn failed(error: Option<TridentError>) -> Failure {
        let completed = Completed { status: 2, error, ..Completed::default() };
        match read("testing", completed) {
            Err(Error::Failed(failure)) => failure,
            other => panic!("not a failure: {other:?}"),
        }
    }

    #[test]
    fn a_failure_without_a_structured_error_is_unknown() {
        let failure = failed(None);
        assert_eq!((failure.kind.as_str(), failure.subkind.as_str()), ("unknown", "unknown"));
        let failure = failed(Some(TridentError { kind: 99, ..TridentError::default() }));
        assert_eq!((failure.kind.as_str(), failure.subkind.as_str()), ("unknown", "unknown"));
    }

    #[test]
    fn a_failure_keeps_kind_subkind_and_place() {
        let failure = failed(Some(TridentError {
            kind: 6,
            subkind: "ab-update-reboot-check".into(),
            message: "wrong volume".into(),
            error_message: "booted B".into(),
            location: Some(v1::FileLocation { path: "src/x.rs".into(), line: 7 }),
        }));
        assert_eq!(failure.kind, "SERVICING_ERROR");
        assert_eq!(failure.subkind, "ab-update-reboot-check");
        assert_eq!(failure.message, "wrong volume: booted B");
        assert_eq!(failure.location, Some(Location { path: "src/x.rs".into(), line: 7 }));
    }

    #[test]
    fn texts_that_repeat_each_other_are_said_once() {
        for (short, long, said) in
            [("a", "a: b", "a: b"), ("a: b", "b", "a: b"), ("", "b", "b"), ("a", "", "a")]
        {
            let error = TridentError {
                message: short.into(),
                error_message: long.into(),
                ..TridentError::default()
            };
            assert_eq!(message(&error), said);
        }
    }

    #[test]
    fn an_unspecified_status_is_no_success() {
        assert!(matches!(read("testing", Completed::default()), Err(Error::Failed(_))));
    }

    proptest! {
        #[test]
        fn any_number_is_read(status: i32, kind: Option<i32>, reboot: i32) {
            let completed = Completed {
                status,
                servicing_kind: kind,
                reboot_status: reboot,
                ..Completed::default()
            };
            prop_assert_eq!(read("testing", completed).is_ok(), status == 1);
        }
    }
}
