use thiserror::Error;

use crate::host::HostError;
use crate::omaha;
use crate::state::StoreError;
use crate::trident;

/// Why an operation ended without a recorded outcome.
#[derive(Debug, Error)]
pub enum OperateError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("this machine cannot name itself to Nebraska")]
    Identity(#[from] omaha::IdentityError),
    #[error("no client for Nebraska")]
    Client { source: omaha::Error },
    #[error("tridentd cannot be addressed")]
    Trident { source: trident::Error },
    /// It is retried: the commit stays pending.
    #[error("tridentd could not be asked to commit")]
    CommitNotTaken { source: trident::Error },
    #[error("cannot listen for signals")]
    Signal { source: std::io::Error },
    #[error("another operation is running on this node")]
    Busy,
    #[error(
        "no such operation was accepted: operations are started by the watcher, from the request \
         annotation on the Node"
    )]
    NotAsked,
    #[error("{left} events could not be delivered to Nebraska yet")]
    StillOwed { left: usize },
}
