//! What tridentd's answers mean.

use crate::contract::{Code, Request, TridentError};

/// Subkinds by which Trident says that the node came back on its previous slot.
const BOOT_FAILED: [&str; 3] = [
    "ab-update-reboot-check",
    "ab-update-health-check-commit-check",
    "manual-rollback-reboot-check",
];

/// How a servicing call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Done {
        served: Served,
        /// It asked for a reboot, or started one.
        reboot: bool,
    },
    /// tridentd itself returned an error.
    Failed { error: TridentError, message: String },
    /// No answer: timed out, broke off, unreachable. The text says which.
    Unknown(String),
}

/// What tridentd says it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Served {
    Unsaid,
    Nothing,
    AbUpdate,
    AbRollback,
    /// Another kind, by its name.
    Other(String),
}

/// A terminal code, why, and Trident's own error if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub code: Code,
    pub message: String,
    pub trident_error: Option<TridentError>,
}

impl Verdict {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), trident_error: None }
    }

    fn failed(code: Code, what: &str, error: &TridentError, message: &str) -> Self {
        let kind = format!("{}/{}", error.kind, error.subkind);
        let message = format!("tridentd could not {what} ({kind}): {message}");
        Self { code, message, trident_error: Some(error.clone()) }
    }
}

/// After `UpdateStage`, on a node that does not run the target yet.
pub fn after_stage(answer: &Answer, target: &str) -> Verdict {
    match answer {
        Answer::Done { served: Served::AbUpdate | Served::Unsaid, .. } => {
            Verdict::new(Code::Success, format!("staged update to {target}"))
        }
        Answer::Done { served: Served::Nothing, .. } => Verdict::new(
            Code::OperationFailed,
            format!(
                "tridentd staged nothing: it holds this image to be deployed, but the node does not run {target}"
            ),
        ),
        Answer::Done { served, .. } => wrong_kind("stage an A/B update", served),
        Answer::Failed { error, message } => {
            Verdict::failed(Code::OperationFailed, "stage the update", error, message)
        }
        Answer::Unknown(why) => Verdict::new(Code::OperationFailed, format!("staging: {why}")),
    }
}

/// After `RollbackStage`: `None` means go on to finalize.
pub fn after_rollback_stage(answer: &Answer) -> Option<Verdict> {
    match answer {
        Answer::Done { served: Served::AbRollback, .. } => None,
        Answer::Done { served: Served::Nothing, .. } => Some(Verdict::new(
            Code::OperationFailed,
            "there is nothing to roll back: only the last A/B update can be undone",
        )),
        Answer::Done { served, .. } => Some(wrong_kind("stage an A/B rollback", served)),
        Answer::Failed { error, message } => {
            Some(Verdict::failed(Code::OperationFailed, "stage the rollback", error, message))
        }
        Answer::Unknown(why) => {
            Some(Verdict::new(Code::OperationFailed, format!("staging the rollback: {why}")))
        }
    }
}

/// After `UpdateFinalize` or `RollbackFinalize`.
pub fn after_finalize(answer: &Answer) -> Verdict {
    match answer {
        Answer::Done { served: Served::Nothing, .. } => Verdict::new(
            Code::OperationFailed,
            "tridentd had nothing to finalize: the boot is not armed",
        ),
        Answer::Done { .. } => {
            Verdict::new(Code::Success, "the boot of the other slot is armed, the node will reboot")
        }
        Answer::Failed { error, message } => {
            Verdict::failed(Code::OperationFailed, "arm the boot", error, message)
        }
        Answer::Unknown(why) => Verdict::new(
            Code::OperationFailed,
            format!(
                "arming the boot: {why}; the node will not be rebooted, but the boot may be armed"
            ),
        ),
    }
}

/// After `Commit`. `version`: what the node runs now, where that can be read.
pub fn after_commit(
    answer: &Answer,
    request: &Request,
    from: &str,
    version: Option<&str>,
) -> Verdict {
    match answer {
        Answer::Done { reboot: true, .. } => Verdict::new(
            Code::AgentInternalError,
            "tridentd asked for another reboot to commit, which is not expected: see its log",
        ),
        Answer::Done { served: Served::Nothing, .. } => {
            committed_by_another(request, from, version)
        }
        Answer::Done { .. } => {
            let booted = version.unwrap_or("a version that cannot be read");
            Verdict::new(Code::Success, format!("the node booted {booted} and it was committed"))
        }
        Answer::Failed { error, message } => {
            let code = match BOOT_FAILED.contains(&error.subkind.as_str()) {
                true => Code::TargetBootFailed,
                false => Code::OperationFailed,
            };
            Verdict::failed(code, "commit the booted slot", error, message)
        }
        Answer::Unknown(why) => Verdict::new(Code::OperationFailed, format!("committing: {why}")),
    }
}

/// A boot is good or bad by tridentd's word; what its extensions made of it is said beside that.
#[must_use]
pub fn with_extensions(mut verdict: Verdict, trouble: Option<&str>) -> Verdict {
    if let Some(trouble) = trouble {
        verdict.message = format!("{}; {trouble}", verdict.message);
    }
    verdict
}

/// Whether the version proves that the node runs what was asked for. A rollback names no target: there, any
/// version other than the one it left. One that is not known proves nothing.
pub fn is_on_target(request: &Request, from: &str, version: &str) -> bool {
    match request.target_version() {
        Some(target) => version == target,
        None => !from.is_empty() && !version.is_empty() && version != from,
    }
}

/// "Nothing to commit" is success only where the version proves it: another boot-time unit was first.
fn committed_by_another(request: &Request, from: &str, version: Option<&str>) -> Verdict {
    let Some(version) = version.filter(|version| !version.is_empty()) else {
        let message = "tridentd has nothing to commit, and the version that the node runs cannot be read: \
                       how it ended is not known";
        return Verdict::new(Code::AgentInternalError, message);
    };
    if is_on_target(request, from, version) {
        let message = format!("the node booted {version}; it had been committed already");
        Verdict::new(Code::Success, message)
    } else if version == from && !from.is_empty() {
        let message =
            format!("the node came back on {version}; tridentd has nothing left to commit");
        Verdict::new(Code::TargetBootFailed, message)
    } else {
        let message = format!(
            "the node runs \"{version}\", from \"{from}\": that proves nothing, and tridentd has nothing to commit"
        );
        Verdict::new(Code::AgentInternalError, message)
    }
}

fn wrong_kind(what: &str, served: &Served) -> Verdict {
    let kind = match served {
        Served::Unsaid => "no kind at all",
        Served::Nothing => "nothing",
        Served::AbUpdate => "an A/B update",
        Served::AbRollback => "an A/B rollback",
        Served::Other(name) => name,
    };
    Verdict::new(Code::OperationFailed, format!("tridentd was to {what}, but it served: {kind}"))
}
