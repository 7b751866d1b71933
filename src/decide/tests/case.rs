//! A view that is built by saying only what matters.

use std::time::Duration;

use serde_json::json;

use crate::contract::{Code, Id, Phase, Request, Status, Utc};
use crate::decide::{
    Act, Annotations, Asked, Boot, Key, Limits, Mark, Plan, Publish, Unit, View, decide,
};
use crate::state::{
    CommitRecord, Completed, EventKind, InFlight, OwedEvent, PendingCommit, Staged, State,
};

pub(super) const OLD: &str = "202606.15.0";
pub(super) const NEW: &str = "202606.29.0";
pub(super) const NEWER: &str = "202607.6.0";

pub(super) fn now() -> Utc {
    Utc::from_second(1_800_000_000)
}

pub(super) fn earlier() -> Utc {
    Utc::from_second(1_799_999_000)
}

pub(super) fn id(n: u32) -> Id {
    Id::parse(&format!("00000000-0000-4000-8000-{n:012}")).unwrap()
}

/// `operationId` number `n`, of the node update with number `n / 10`.
pub(super) fn request(operation: &str, n: u32) -> Request {
    let mut text = json!({
        "schemaVersion": "1.0",
        "nodeUpdateId": id(n / 10).to_string(),
        "operationId": id(n).to_string(),
        "operation": operation,
    });
    if operation != "rollback" {
        text["targetVersion"] = json!(if n / 10 == 1 { NEW } else { NEWER });
        text["server"] = json!("https://nebraska.example.com/v1/update");
        text["appId"] = json!("11111111-2222-3333-4444-555555555555");
        text["track"] = json!("stable");
    }
    Request::parse(&text.to_string()).unwrap()
}

/// An event of this request that Nebraska has not taken yet.
pub(super) fn owed(request: &Request, event: EventKind) -> OwedEvent {
    let update = request.work.update().unwrap();
    OwedEvent {
        operation_id: request.operation_id.clone(),
        node_update_id: request.node_update_id.clone(),
        operation: request.operation().into(),
        target_version: update.target_version.clone(),
        server: update.server.clone(),
        app_id: update.app_id.clone(),
        track: update.track.clone(),
        version: OLD.to_owned(),
        event,
    }
}

pub(super) fn stage(n: u32) -> Request {
    request("stage", n)
}

pub(super) fn finalize(n: u32) -> Request {
    request("finalize", n)
}

pub(super) fn rollback(n: u32) -> Request {
    request("rollback", n)
}

pub(super) fn in_progress(request: &Request) -> Status {
    InFlight::new(request.clone(), OLD.to_owned(), earlier()).status()
}

pub(super) fn ended(request: &Request, code: Code) -> Status {
    in_progress(request).finish(code, "as it ended", earlier())
}

pub(super) fn commit_begun(request: &Request) -> Status {
    Status::begin(request, Phase::Commit, Some(OLD.to_owned()), earlier())
}

pub(super) fn commit_ended(request: &Request, code: Code) -> Status {
    commit_begun(request).finish(code, "as the commit ended", earlier())
}

pub(super) fn unit_ended(result: &str) -> Unit {
    Unit::Ended { result: result.to_owned() }
}

/// An idle node on the old version, with nothing asked.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) annotations: Annotations,
    pub(super) state: State,
    pub(super) unit: Unit,
    pub(super) commit_unit: Unit,
    pub(super) report_unit: Unit,
    pub(super) boot: Boot,
    pub(super) version: Option<String>,
    pub(super) heartbeat_due: bool,
    pub(super) has_stood: bool,
}

pub(super) fn idle() -> Case {
    Case {
        annotations: Annotations { asked: Asked::Nothing, ..Annotations::default() },
        state: State::default(),
        unit: Unit::Absent,
        commit_unit: Unit::Absent,
        report_unit: Unit::Absent,
        boot: Boot {
            id: "boot-1".to_owned(),
            uptime: Duration::from_secs(1000),
            shutting_down: false,
        },
        version: Some(OLD.to_owned()),
        heartbeat_due: false,
        has_stood: true,
    }
}

impl Case {
    pub(super) fn plan(&self) -> Plan {
        decide(&View {
            annotations: &self.annotations,
            state: &self.state,
            unit: &self.unit,
            commit_unit: &self.commit_unit,
            report_unit: &self.report_unit,
            boot: &self.boot,
            version: self.version.as_deref(),
            limits: Limits {
                publish_wait: Duration::from_secs(600),
                commit_overdue: Duration::from_secs(300),
            },
            heartbeat_due: self.heartbeat_due,
            has_stood: self.has_stood,
            now: now(),
        })
    }

    pub(super) fn asked(mut self, request: &Request) -> Self {
        self.annotations.asked = Asked::Request { request: request.clone(), server_allowed: true };
        self
    }

    pub(super) fn asked_from_a_forbidden_server(mut self, request: &Request) -> Self {
        self.annotations.asked = Asked::Request { request: request.clone(), server_allowed: false };
        self
    }

    pub(super) fn asked_brokenly(mut self, text: &str) -> Self {
        let broken = Request::parse(text).unwrap_err();
        self.annotations.asked = Asked::Broken { digest: text.to_owned(), broken };
        self
    }

    pub(super) fn without_node(mut self) -> Self {
        self.annotations = Annotations::default();
        self
    }

    pub(super) fn says(mut self, status: Status) -> Self {
        self.annotations.status = Some(status);
        self
    }

    pub(super) fn says_of_the_commit(mut self, status: Status) -> Self {
        self.annotations.commit_status = Some(status);
        self
    }

    /// In flight, started that often.
    pub(super) fn in_flight(mut self, request: &Request, starts: u32) -> Self {
        let mut operation = InFlight::new(request.clone(), OLD.to_owned(), earlier());
        operation.starts = starts;
        self.state.operation = Some(operation);
        self
    }

    pub(super) fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    pub(super) fn staged(mut self, by: &Request) -> Self {
        let update = by.work.update().unwrap().clone();
        self.state.staged = Some(Staged::new(by.node_update_id.clone(), update, None));
        self
    }

    pub(super) fn done(mut self, status: Status, published: bool) -> Self {
        let mut done = Completed::new(status);
        done.published = published;
        self.state.completed.push(done);
        self
    }

    /// The commit of the newest finished operation.
    pub(super) fn commit(mut self, status: Status, announced: bool, published: bool) -> Self {
        let done = self.state.completed.last_mut().unwrap();
        done.commit = Some(CommitRecord { status, announced, published });
        self
    }

    /// Armed in this boot, at an uptime of 900 seconds.
    pub(super) fn armed(mut self, request: &Request) -> Self {
        let operation = InFlight::new(request.clone(), OLD.to_owned(), earlier());
        self.state.pending_commit = Some(PendingCommit::new(&operation, "boot-1".to_owned(), 900));
        self
    }

    pub(super) fn uptime(mut self, seconds: u64) -> Self {
        self.boot.uptime = Duration::from_secs(seconds);
        self
    }

    pub(super) fn rebooted(mut self) -> Self {
        self.boot.id = "boot-2".to_owned();
        self.uptime(20)
    }

    pub(super) fn shutting_down(mut self) -> Self {
        self.boot.shutting_down = true;
        self
    }

    pub(super) fn runs(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }

    /// Something was written a moment ago.
    pub(super) fn just_said(mut self) -> Self {
        self.has_stood = false;
        self
    }

    pub(super) fn heartbeat_due(mut self) -> Self {
        self.heartbeat_due = true;
        self
    }
}

/// The status that the plan records as an operation's end.
pub(super) fn completes(plan: &Plan) -> &Status {
    match &plan.act {
        Act::Complete(status) => status,
        other => panic!("nothing is completed: {other:?}"),
    }
}

pub(super) fn writes(plan: &Plan) -> &Publish {
    plan.say.as_ref().expect("nothing is written")
}

/// Key, operation number, code and mark of what is written.
pub(super) fn assert_writes(plan: &Plan, key: Key, of: &Request, code: Code, mark: &Mark) {
    let publish = writes(plan);
    assert_eq!(publish.key, key);
    assert_eq!(publish.status.operation_id, of.operation_id);
    assert_eq!(publish.status.code, code);
    assert_eq!(publish.mark, *mark);
    assert_eq!(publish.status.last_updated_utc, now());
}

pub(super) fn assert_quiet(case: &Case) {
    assert_eq!(case.plan(), Plan { say: None, act: Act::Wait, deliver: false }, "{case:?}");
}
