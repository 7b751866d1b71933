use std::time::Duration;

use crate::contract::{Broken, Id, Request, Status, Utc};
use crate::state::{Completed, State};

/// All that a decision is made from.
#[derive(Debug, Clone)]
pub struct View<'a> {
    pub annotations: &'a Annotations,
    pub state: &'a State,
    /// The unit of the operation in flight.
    pub unit: &'a Unit,
    pub commit_unit: &'a Unit,
    pub report_unit: &'a Unit,
    pub boot: &'a Boot,
    /// `None`: not readable, and the settings say that this fails an operation.
    pub version: Option<&'a str>,
    pub limits: Limits,
    /// What is running is alive, and it is time to say so.
    pub heartbeat_due: bool,
    /// What was written last has stood on the Node for as long as a heartbeat does.
    pub has_stood: bool,
    pub now: Utc,
}

/// Our three annotations, as far as they are ours.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Annotations {
    pub asked: Asked,
    pub status: Option<Status>,
    pub commit_status: Option<Status>,
}

/// The request annotation.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Asked {
    /// The Node was not read yet, or is gone.
    #[default]
    Unknown,
    Nothing,
    Broken {
        /// Of the annotation's text.
        digest: String,
        broken: Broken,
    },
    Request {
        request: Request,
        /// Whether the settings let this node update from the request's server.
        server_allowed: bool,
    },
}

/// A unit as systemd sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// Not loaded, or loaded and never run.
    Absent,
    Running,
    Ended {
        /// systemd's `Result`: `success`, `exit-code`, `oom-kill`, `timeout`, ...
        result: String,
    },
}

/// This boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot {
    pub id: String,
    /// Since the kernel started.
    pub uptime: Duration,
    /// A shutdown is under way: no further step is taken.
    pub shutting_down: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long an armed reboot waits for its status to be published.
    pub publish_wait: Duration,
    /// When a commit that boot has not started is overdue, since boot.
    pub commit_overdue: Duration,
}

impl View<'_> {
    /// The request on the Node, if it is one.
    pub(super) fn request(&self) -> Option<&Request> {
        match &self.annotations.asked {
            Asked::Request { request, .. } => Some(request),
            Asked::Unknown | Asked::Nothing | Asked::Broken { .. } => None,
        }
    }

    /// The id that is asked under. A request that breaks a rule has one too, where it can be read.
    pub(super) fn asked_id(&self) -> Option<&Id> {
        match &self.annotations.asked {
            Asked::Request { request, .. } => Some(&request.operation_id),
            Asked::Broken { broken, .. } => {
                Some(&broken.operation_id).filter(|id| **id != Id::nil())
            }
            Asked::Unknown | Asked::Nothing => None,
        }
    }

    /// The record of the request on the Node.
    pub(super) fn answered(&self) -> Option<&Completed> {
        self.state.find(self.asked_id()?)
    }

    /// The request on the Node has the id of the operation in flight.
    pub(super) fn is_in_flight(&self) -> bool {
        let running = self.state.operation.as_ref().map(|it| &it.request.operation_id);
        running.is_some() && running == self.asked_id()
    }

    pub(super) fn is_node_known(&self) -> bool {
        self.annotations.asked != Asked::Unknown
    }

    pub(super) fn asks_for(&self, id: &Id) -> bool {
        self.request().is_some_and(|request| request.operation_id == *id)
    }

    /// The node came up anew since the boot was armed.
    pub(super) fn rebooted(&self) -> bool {
        self.state.pending_commit.as_ref().is_some_and(|it| it.boot_marker != self.boot.id)
    }
}
