//! A tiny node for the simulation: annotations, state, units, tridentd and two slots, driven by plans as
//! `watch` carries them out, and by operations that record as `operate` does. Broken invariants panic.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::agent::Agent;
use super::case::OLD;
use super::trident::Trident;
use crate::contract::{Code, Request, Status, Utc};
use crate::decide::{Boot, Unit};
use crate::state::{PendingCommit, State};

/// Our annotations as the API server has them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Node {
    pub(super) asked: Option<String>,
    pub(super) status: Option<String>,
    pub(super) commit_status: Option<String>,
}

/// A unit that runs an operation or the commit, by the steps of its process.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Process {
    /// As systemd was told to start it; `None`: the commit.
    pub(super) request: Option<Request>,
    pub(super) work: Work,
}

/// How far a process has come.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    /// It has not taken the operation lock yet.
    Started,
    Working {
        step: u32,
        operation: Box<super::operation::Job>,
    },
    Ended(String),
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) state: State,
    pub(super) node: Node,
    pub(super) api_up: bool,
    /// The API server has no room for messages.
    pub(super) no_room: bool,
    pub(super) units: BTreeMap<String, Process>,
    pub(super) commit: Option<Process>,
    /// Counted by a slow agent, which has not asked systemd yet.
    pub(super) late_start: Option<Request>,
    pub(super) shutting_down: bool,
    pub(super) trident: Trident,
    pub(super) boot: u32,
    pub(super) booted: i64,
    /// Since the epoch by a clock that never jumps.
    pub(super) clock: i64,
    /// How far the wall clock is ahead of it.
    pub(super) ahead: i64,
    pub(super) agents: [Agent; 2],
    /// The one outcome of each operation, and of each commit.
    pub(super) outcomes: BTreeMap<String, Code>,
    commits: BTreeMap<String, Code>,
    /// Every operation that was started.
    pub(super) started: BTreeSet<String>,
    pub(super) writes: u32,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            state: State::default(),
            node: Node::default(),
            api_up: true,
            no_room: false,
            units: BTreeMap::new(),
            commit: None,
            late_start: None,
            shutting_down: false,
            trident: Trident::new(OLD),
            boot: 1,
            booted: 1_800_000_000,
            clock: 1_800_000_000,
            ahead: 0,
            agents: [Agent::default(), Agent::default()],
            outcomes: BTreeMap::new(),
            commits: BTreeMap::new(),
            started: BTreeSet::new(),
            writes: 0,
        }
    }

    pub(super) fn now(&self) -> Utc {
        Utc::from_second(self.clock + self.ahead)
    }

    pub(super) fn boot_id(&self) -> String {
        format!("boot-{}", self.boot)
    }

    pub(super) fn boot(&self) -> Boot {
        let up = u64::try_from(self.clock - self.booted).unwrap();
        Boot {
            id: self.boot_id(),
            uptime: Duration::from_secs(up),
            shutting_down: self.shutting_down,
        }
    }

    /// Every write of the state comes by here.
    pub(super) fn update<T>(&mut self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state);
        for done in &self.state.completed {
            let id = done.status.operation_id.canonical();
            note(&mut self.outcomes, &id, &done.status);
            if let Some(commit) = &done.commit {
                note(&mut self.commits, &id, &commit.status);
            }
        }
        let operation = self.state.operation.as_ref().map(|it| it.request.operation_id.canonical());
        if let Some(id) = operation {
            assert!(!self.outcomes.contains_key(&id), "{id} is in flight again after its outcome");
            assert!(self.state.pending_commit.is_none(), "{id} in flight beside a pending commit");
        }
        result
    }

    /// Before an operation changes anything outside the state.
    pub(super) fn check_may_work(&self, id: &str) {
        assert!(!self.outcomes.contains_key(id), "{id} works on after its outcome was recorded");
        let holders = self.units.values().filter(|it| matches!(it.work, Work::Working { .. }));
        assert!(holders.count() <= 1, "two operations at a time");
    }

    pub(super) fn unit(&self, request: &Request) -> Unit {
        seen(self.units.get(&request.operation_id.canonical()))
    }

    pub(super) fn commit_unit(&self) -> Unit {
        seen(self.commit.as_ref())
    }

    pub(super) fn is_locked(&self) -> bool {
        let holds = |it: &Process| matches!(it.work, Work::Working { .. });
        self.units.values().any(holds) || self.commit.as_ref().is_some_and(holds)
    }

    /// `StartTransientUnit`, after finished ones were cleared. Refused where it runs already.
    pub(super) fn start_unit(&mut self, request: &Request) {
        self.units.retain(|_, process| !matches!(process.work, Work::Ended(_)));
        let id = request.operation_id.canonical();
        if self.shutting_down || self.units.contains_key(&id) {
            return;
        }
        self.started.insert(id.clone());
        self.units.insert(id, Process { request: Some(request.clone()), work: Work::Started });
    }

    pub(super) fn start_commit(&mut self) {
        let running = self.commit.as_ref().is_some_and(|it| !matches!(it.work, Work::Ended(_)));
        if !running {
            self.commit = Some(Process { request: None, work: Work::Started });
        }
    }

    /// logind was asked: only an armed boot may be rebooted into.
    pub(super) fn ask_for_reboot(&mut self) {
        let pending = self.state.pending_commit.as_ref().expect("a reboot that nothing waits for");
        assert_eq!(pending.boot_marker, self.boot_id(), "a reboot for an earlier boot");
        assert!(self.trident.is_armed(), "a reboot though nothing is armed: {:?}", self.trident);
        self.shutting_down = true;
    }

    /// The power comes back, after a shutdown or a cut.
    pub(super) fn reboot(&mut self, falls_back: bool, commit_starts: bool) {
        self.units.clear();
        (self.commit, self.late_start) = (None, None);
        self.agents = [Agent::default(), Agent::default()];
        self.shutting_down = false;
        self.boot += 1;
        self.clock += 30;
        self.booted = self.clock;
        self.trident.boot(falls_back);
        if commit_starts {
            self.start_commit();
        }
    }

    /// A power cut that costs the state file.
    pub(super) fn lose_state(&mut self, falls_back: bool) {
        self.reboot(falls_back, true);
        self.state = State::default();
        self.outcomes.clear();
        self.commits.clear();
        self.started.clear();
    }

    /// What the commit unit looks for when it starts.
    pub(super) fn pending(&self) -> Option<PendingCommit> {
        let pending = self.state.pending_commit.as_ref()?;
        (pending.boot_marker != self.boot_id()).then(|| pending.clone())
    }
}

/// An outcome is recorded once and stays what it is.
fn note(outcomes: &mut BTreeMap<String, Code>, id: &str, status: &Status) {
    if status.code.is_terminal() {
        let known = *outcomes.entry(id.to_owned()).or_insert(status.code);
        assert_eq!(known, status.code, "the outcome of {id} has changed");
    }
}

fn seen(process: Option<&Process>) -> Unit {
    match process.map(|process| &process.work) {
        None => Unit::Absent,
        Some(Work::Started | Work::Working { .. }) => Unit::Running,
        Some(Work::Ended(result)) => Unit::Ended { result: result.clone() },
    }
}
