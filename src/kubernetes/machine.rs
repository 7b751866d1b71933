//! Whether a Node describes this machine: `status.nodeInfo.systemUUID` against the firmware's UUID, which is
//! where kubelet has it from.

use std::sync::{Arc, Mutex, PoisonError};

use tracing::{info, warn};

use super::node::{Object, Seen};
use crate::contract::Keys;

/// The check, and what it said last: the same is not said again on every event. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Machine {
    /// `None`: there is no check.
    check: Option<Check>,
}

#[derive(Debug, Clone)]
struct Check {
    /// `None`: this machine's cannot be read.
    ours: Option<String>,
    said: Arc<Mutex<Verdict>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Same,
    /// Holds the Node's.
    Other(String),
    /// Which of the two is known.
    Undecided {
        machine_known: bool,
        node_known: bool,
    },
}

impl Machine {
    pub(super) fn checked(ours: Option<String>) -> Self {
        let said = Arc::new(Mutex::new(Verdict::Same));
        Self { check: Some(Check { ours, said }) }
    }

    /// Whether a Node is to be read whole.
    pub(super) fn is_checked(&self) -> bool {
        self.check.is_some()
    }

    /// `Gone` where the Node describes another machine.
    pub(super) fn see(&self, node: Object, keys: &Keys) -> Seen {
        match self.check.as_ref().map(|check| check.judge(node.system_uuid())) {
            Some(Verdict::Other(_)) => Seen::Gone,
            Some(Verdict::Same | Verdict::Undecided { .. }) | None => Seen::Node(node.keep(keys)),
        }
    }
}

impl Check {
    fn judge(&self, theirs: Option<&str>) -> Verdict {
        let verdict = match (&self.ours, theirs) {
            (Some(ours), Some(theirs)) if ours.eq_ignore_ascii_case(theirs) => Verdict::Same,
            (Some(_), Some(theirs)) => Verdict::Other(theirs.to_owned()),
            (ours, theirs) => {
                Verdict::Undecided { machine_known: ours.is_some(), node_known: theirs.is_some() }
            }
        };
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if *said != verdict {
            self.say(&verdict);
            said.clone_from(&verdict);
        }
        verdict
    }

    fn say(&self, verdict: &Verdict) {
        let machine_uuid = self.ours.as_deref().unwrap_or_default();
        match verdict {
            Verdict::Same => info!(machine_uuid, "the Node of this name is this machine"),
            Verdict::Other(node_uuid) => {
                warn!(node_uuid, machine_uuid, "the Node of this name is another machine");
            }
            Verdict::Undecided { machine_known, node_known } => {
                warn!(machine_known, node_known, "cannot check the Node's identity, ignoring");
            }
        }
    }
}
