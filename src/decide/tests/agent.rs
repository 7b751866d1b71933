//! A watcher of the simulation: it looks, and later does what it decided, as `watch` does.

use std::time::Duration;

use super::world::{Node, World};
use crate::contract::{Code, Request, Status};
use crate::decide::{
    Act, Annotations, Asked, Key, Limits, Plan, Publish, Unit, View, apply, decide, published,
};
use crate::state::State;

/// Between two heartbeats.
const HEARTBEAT: i64 = 60;

#[derive(Debug, Clone, Default)]
pub(super) struct Agent {
    /// The newest that it was told.
    node: Option<Node>,
    /// What it saw and decided, not done yet.
    look: Option<(State, Plan)>,
    /// When it wrote last, and when it last wrote `InProgress`.
    said: Option<i64>,
    beat: Option<i64>,
}

/// Where a crash ends what an agent does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Until {
    End,
    /// The API server has the status, the state does not know it.
    Written,
    Said,
    /// The start is counted; systemd is asked later or never.
    Counted,
}

impl World {
    /// The watch brings the Node.
    pub(super) fn hear(&mut self, agent: usize) {
        if self.api_up {
            self.agents[agent].node = Some(self.node.clone());
        }
    }

    pub(super) fn look(&mut self, agent: usize) {
        let plan = self.plan(agent);
        self.agents[agent].look = Some((self.state.clone(), plan));
    }

    pub(super) fn plan(&self, agent: usize) -> Plan {
        let annotations = annotations(self.agents[agent].node.as_ref());
        let operation = self.state.operation.as_ref();
        let unit = operation.map_or(Unit::Absent, |it| self.unit(&it.request));
        let commit_unit = match self.state.pending_commit {
            Some(_) => self.commit_unit(),
            None => Unit::Absent,
        };
        let working = unit == Unit::Running || commit_unit == Unit::Running;
        let plan = decide(&View {
            heartbeat_due: working && self.is_beat_due(agent, &annotations),
            annotations: &annotations,
            state: &self.state,
            unit: &unit,
            commit_unit: &commit_unit,
            report_unit: &Unit::Absent,
            has_stood: self.has_stood(agent),
            boot: &self.boot(),
            version: Some(&self.trident.active),
            limits: Limits {
                publish_wait: Duration::from_secs(600),
                commit_overdue: Duration::from_secs(300),
            },
            now: self.now(),
        });
        assert_no_way_back(&annotations, plan.say.as_ref());
        plan
    }

    pub(super) fn has_stood(&self, agent: usize) -> bool {
        self.agents[agent].said.is_none_or(|said| self.clock - said >= HEARTBEAT)
    }

    /// As `watch` goes by a clock of its own, and by the Node's word only where it has not written yet.
    fn is_beat_due(&self, agent: usize, annotations: &Annotations) -> bool {
        if let Some(beat) = self.agents[agent].beat {
            return self.clock - beat >= HEARTBEAT;
        }
        let said = [&annotations.status, &annotations.commit_status].into_iter().flatten();
        let in_progress = said.filter(|status| !status.code.is_terminal());
        let last = in_progress.map(|status| status.last_updated_utc.second()).max();
        last.is_none_or(|last| {
            let ago = self.now().second() - last;
            !(0..HEARTBEAT).contains(&ago)
        })
    }

    /// What was decided is done, up to a crash.
    pub(super) fn act(&mut self, agent: usize, until: Until) {
        let Some((seen, plan)) = self.agents[agent].look.take() else {
            return;
        };
        if let Some(publish) = plan.say.filter(|_| self.api_up) {
            self.write(&publish);
            self.agents[agent].node = Some(self.node.clone());
            self.agents[agent].said = Some(self.clock);
            if publish.status.code == Code::InProgress {
                self.agents[agent].beat = Some(self.clock);
            }
            if until != Until::Written {
                self.update(|state| published(state, &publish));
            }
        }
        if matches!(until, Until::End | Until::Counted) {
            self.carry_out(&plan.act, &seen, until);
        }
        if until != Until::End {
            self.agents[agent] = Agent::default();
        }
    }

    fn write(&mut self, publish: &Publish) {
        self.writes += 1;
        let status = match self.no_room {
            true => publish.status.clone().with_message(""),
            false => publish.status.clone(),
        };
        match publish.key {
            Key::Status => self.node.status = Some(status.to_json()),
            Key::CommitStatus => self.node.commit_status = Some(status.to_json()),
        }
    }

    fn carry_out(&mut self, act: &Act, seen: &State, until: Until) {
        let now = self.now();
        match act {
            Act::Wait => {}
            Act::Reboot => {
                // `watch` reads the state anew, and asks logind only for what is still pending.
                let pending = self.state.pending_commit.is_some();
                if pending
                    && self.state.pending_commit == seen.pending_commit
                    && !self.shutting_down
                {
                    self.ask_for_reboot();
                }
            }
            Act::RunCommit => self.start_commit(),
            Act::Start { .. } => {
                let request = seen.operation.as_ref().unwrap().request.clone();
                let counted = self.update(|state| apply(state, seen, act, now));
                match until {
                    Until::End if counted => self.start_unit(&request),
                    Until::Counted if counted => self.late_start = Some(request),
                    Until::End | Until::Written | Until::Said | Until::Counted => {}
                }
            }
            Act::Complete(status) => {
                let id = seen.operation.as_ref().map(|it| &it.request.operation_id);
                if id != Some(&status.operation_id) || !self.is_locked() {
                    self.update(|state| apply(state, seen, act, now));
                }
            }
            Act::Accept(_)
            | Act::Withdraw
            | Act::Refuse { .. }
            | Act::Adopt { .. }
            | Act::Recover(_)
            | Act::Announce(_) => {
                self.update(|state| apply(state, seen, act, now));
            }
        }
    }
}

fn annotations(node: Option<&Node>) -> Annotations {
    let Some(node) = node else {
        return Annotations::default();
    };
    let status = |text: &Option<String>| text.as_ref().and_then(|text| Status::from_json(text));
    Annotations {
        asked: node.asked.as_ref().map_or(Asked::Nothing, |text| asked(text)),
        status: status(&node.status),
        commit_status: status(&node.commit_status),
    }
}

fn asked(text: &str) -> Asked {
    match Request::parse(text) {
        Ok(request) => Asked::Request { request, server_allowed: true },
        Err(broken) => Asked::Broken { digest: text.to_owned(), broken },
    }
}

/// What has ended, by the Node's word, is never in progress again.
fn assert_no_way_back(said: &Annotations, publish: Option<&Publish>) {
    let Some(publish) = publish.filter(|it| it.status.code == Code::InProgress) else { return };
    let said = match publish.key {
        Key::Status => &said.status,
        Key::CommitStatus => &said.commit_status,
    };
    let ours = said.as_ref().filter(|said| said.operation_id == publish.status.operation_id);
    assert!(ours.is_none_or(|said| !said.code.is_terminal()), "{publish:?} over {ours:?}");
}
