//! What can go wrong at tridentd, and whether to try again.

use std::fmt;
use std::time::Duration;

use thiserror::Error;
use tonic::{Code, Status};

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same call may be made again as it is: it has not reached the daemon.
    Again,
    /// The call may still run, or have ended unseen: look at the state, or ask again and wait out "busy".
    FindOut,
    /// Asking again would give the same answer.
    No,
}

/// Why a call did not come to success.
#[derive(Debug, Error)]
pub enum Error {
    /// The configured address is no unix socket.
    #[error("the tridentd socket {socket} cannot be used: {reason}")]
    BadSocket {
        /// The address, without credentials, path and query.
        socket: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The configured address was refused by the transport.
    #[error("the tridentd socket address cannot be used")]
    BadEndpoint {
        /// The transport's word.
        source: tonic::transport::Error,
    },
    /// The daemon was away, starting or busy for as long as we may wait.
    #[error("{what}: tridentd did not take the call within {after:?} ({tries} tries)")]
    Unreachable {
        /// What we were doing.
        what: &'static str,
        /// How long we waited.
        after: Duration,
        /// How often we asked.
        tries: u32,
        /// The last refusal.
        source: Refusal,
    },
    /// The deadline passed while a call was with the daemon; the call may still run.
    #[error("{what}: no end of the call within {after:?}")]
    TimedOut {
        /// What we were doing.
        what: &'static str,
        /// The deadline.
        after: Duration,
    },
    /// The connection broke while the call was with the daemon; the call may still run.
    #[error("{what}: the connection to tridentd broke {}", when(*.started))]
    Broken {
        /// What we were doing.
        what: &'static str,
        /// Whether the daemon had begun to answer.
        started: bool,
        /// The transport's word.
        source: Box<Status>,
    },
    /// The answer ended in good order, but without a result.
    #[error("{what}: tridentd ended its answer without a result")]
    NoAnswer {
        /// What we were doing.
        what: &'static str,
    },
    /// The daemon answered with a gRPC status of its own.
    #[error("{what}: tridentd answered with status {code:?} {}: {message}", when(*.started))]
    Status {
        /// What we were doing.
        what: &'static str,
        /// The gRPC code.
        code: Code,
        /// The daemon's text, addresses in it redacted.
        message: String,
        /// Whether the daemon had begun to answer.
        started: bool,
    },
    /// tridentd carried the call out and reports that it failed.
    #[error("{what}: {0}", what = .0.what)]
    Failed(Failure),
}

/// How tridentd explains a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What we were doing.
    pub what: &'static str,
    /// tridentd's classification, such as `SERVICING_ERROR`; `unknown` when it gave none.
    pub kind: String,
    /// The finer one, such as `ab-update-reboot-check`; `unknown` when it gave none.
    pub subkind: String,
    /// The text, addresses in it redacted.
    pub message: String,
    /// Where in tridentd's source, when it says so.
    pub location: Option<Location>,
}

/// A place in tridentd's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tridentd reports {}/{}: {}", self.kind, self.subkind, self.message)
    }
}

/// Why the daemon did not take a call: nothing was started by it.
#[derive(Debug, Error)]
pub enum Refusal {
    /// No daemon behind the socket, or no socket.
    #[error("cannot connect to tridentd")]
    NotListening(#[source] tonic::transport::Error),
    /// The daemon runs another servicing call, or is starting.
    #[error("tridentd is busy or starting: {0}")]
    Busy(String),
}

impl Error {
    /// The daemon runs another servicing call, or is starting; this one was not taken.
    pub fn is_busy(&self) -> bool {
        matches!(self, Error::Unreachable { source: Refusal::Busy(_), .. })
    }

    /// The daemon answers, but has no such call: it is older than this agent.
    pub fn is_unknown_call(&self) -> bool {
        matches!(self, Error::Status { code: Code::Unimplemented, .. })
    }

    /// Whether, and how, to go on after this error.
    pub fn retry(&self) -> Retry {
        match self {
            Error::Unreachable { .. } => Retry::Again,
            Error::TimedOut { .. } | Error::Broken { .. } | Error::NoAnswer { .. } => {
                Retry::FindOut
            }
            Error::Status { started: true, .. } => Retry::FindOut,
            Error::Status { started: false, .. } | Error::Failed(_) => Retry::No,
            Error::BadSocket { .. } | Error::BadEndpoint { .. } => Retry::No,
        }
    }
}

fn when(started: bool) -> &'static str {
    if started { "after it had begun to answer" } else { "before it began to answer" }
}
