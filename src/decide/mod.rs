//! The judgment, and all of it: pure functions over plain values. No clock, no I/O, no log.
//!
//! [`decide`] reads one [`View`] and answers in lanes that do not wait for each other: what to *say* on the
//! Node, what to *do* on the host, and whether to deliver what Nebraska is owed. The caller does it, looks
//! again and asks again, so nothing is decided from what happens to be in memory.
//!
//! ```text
//!             accept            start (InProgress is published)       outcome recorded
//!  request ──────────▶ in flight ─────────────────────▶ unit runs ──────────────────▶ completed
//!     │ reject             │ withdrawn: forgotten or ended │ gone: started again,        │ finalize, rollback
//!     ▼                    ▼                               │ at most 3 times             ▼
//!  completed                                               └──▶ AgentInternalError    pending commit
//!                                                                                        │ reboot, commit
//!                                                                                        ▼
//!                                                                                     completed
//! ```

#![deny(clippy::wildcard_enum_match_arm)]

mod act;
mod apply;
mod lost;
mod outcome;
mod reject;
mod say;
#[cfg(test)]
mod tests;
mod view;

pub use apply::{apply, published, remark};
pub use outcome::{
    Answer, Served, Verdict, after_commit, after_finalize, after_rollback_stage, after_stage,
    is_on_target, with_extensions,
};
pub use say::{Key, Mark, Publish};
pub use view::{Annotations, Asked, Boot, Limits, Unit, View};

use crate::contract::{Request, Status};
use crate::state::InFlight;

/// What may be done now.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub say: Option<Publish>,
    pub act: Act,
    /// Start the unit that delivers events to Nebraska; beside everything else.
    pub deliver: bool,
}

/// One step on the host. Those that record are decided anew after it.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    Wait,
    /// Record the request as in flight.
    Accept(Box<InFlight>),
    /// Forget a request that was taken away before its start.
    Withdraw,
    /// Record a terminal status.
    Complete(Box<Status>),
    /// Record the answer to a broken annotation whose `operationId` cannot be read.
    Refuse {
        digest: String,
        status: Box<Status>,
    },
    /// Record what the Node's own annotations say was done, as the state file does not know it.
    Adopt {
        status: Box<Status>,
        commit: Option<Box<Status>>,
    },
    /// The state was lost between arming and commit.
    Recover(Box<Recovery>),
    /// Start the unit of the operation in flight.
    Start {
        resumed: bool,
    },
    /// Record that the commit after the reboot has begun.
    Announce(Box<Status>),
    Reboot,
    /// Start the commit unit: boot did not.
    RunCommit,
}

/// What is left of a finalize or rollback whose record was lost.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovery {
    pub request: Request,
    /// What the Node says of it.
    pub status: Status,
    /// The node runs the version that was asked for: only the commit is left.
    pub on_target: bool,
}

/// Decides. Pure: the same view gives the same plan.
pub fn decide(view: &View<'_>) -> Plan {
    Plan { say: say::say(view), act: act::act(view), deliver: act::deliver(view) }
}
