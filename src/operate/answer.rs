//! tridentd's answers, in the judgment's words.

use crate::contract::{Location, TridentError, chain};
use crate::decide::{Answer, Served};
use crate::trident::{self, Error, Failure, RebootStatus, ServicingKind};

pub(super) fn answer(result: &Result<trident::Served, Error>) -> Answer {
    match result {
        Ok(served) => Answer::Done {
            served: kind(served.kind),
            reboot: matches!(served.reboot, RebootStatus::Required | RebootStatus::Started),
        },
        Err(Error::Failed(failure)) => {
            Answer::Failed { error: classified(failure), message: failure.message.clone() }
        }
        Err(error) => Answer::Unknown(chain(error)),
    }
}

fn classified(failure: &Failure) -> TridentError {
    TridentError {
        kind: failure.kind.clone(),
        subkind: failure.subkind.clone(),
        location: failure
            .location
            .as_ref()
            .map(|at| Location { path: at.path.clone(), line: at.line }),
    }
}

fn kind(kind: ServicingKind) -> Served {
    match kind {
        ServicingKind::Absent => Served::Unsaid,
        ServicingKind::NoneRequired => Served::Nothing,
        ServicingKind::AbUpdate => Served::AbUpdate,
        ServicingKind::ManualRollbackAb => Served::AbRollback,
        ServicingKind::RuntimeUpdate => Served::Other("a runtime update".to_owned()),
        ServicingKind::CleanInstall => Served::Other("a clean install".to_owned()),
        ServicingKind::ManualRollbackRuntime => Served::Other("a runtime rollback".to_owned()),
        ServicingKind::Unknown(number) => Served::Other(format!("kind {number}")),
    }
}
