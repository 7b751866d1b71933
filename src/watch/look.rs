//! What is: the values that a decision is made from.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{COMMIT_OVERDUE, WatchError, Watcher, names};
use crate::config::Config;
use crate::contract::{Code, Request, Status, Utc};
use crate::decide::{Annotations, Asked, Boot, Limits, Plan, Unit, View, decide};
use crate::host::{alive, uptime};
use crate::kubernetes::{Node, Seen};
use crate::state::State;
use crate::systemd::{Systemd, UnitState};

/// One look, owned.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) annotations: Annotations,
    pub(super) state: State,
    unit: Unit,
    commit_unit: Unit,
    report_unit: Unit,
    boot: Boot,
    version: Option<String>,
    limits: Limits,
    heartbeat_due: bool,
    has_stood: bool,
}

/// What systemd says.
struct Units {
    unit: Unit,
    commit_unit: Unit,
    report_unit: Unit,
    shutting_down: bool,
}

impl Look {
    pub(super) fn plan(&self) -> Plan {
        decide(&View {
            annotations: &self.annotations,
            state: &self.state,
            unit: &self.unit,
            commit_unit: &self.commit_unit,
            report_unit: &self.report_unit,
            boot: &self.boot,
            version: self.version.as_deref(),
            limits: self.limits,
            heartbeat_due: self.heartbeat_due,
            has_stood: self.has_stood,
            now: Utc::now(),
        })
    }

    /// Something runs, and its heartbeat is to be kept up.
    pub(super) fn is_working(&self) -> bool {
        self.unit == Unit::Running || self.commit_unit == Unit::Running
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.boot.shutting_down
    }
}

impl Watcher {
    /// Units first, the state after them: a unit that has ended has recorded its outcome before.
    pub(super) async fn look(&mut self) -> Result<Look, WatchError> {
        let mut known = self.store.read()?;
        loop {
            let units = self.units(&known).await?;
            let state = self.store.read()?;
            // Another process may have begun or ended what the units were looked up for.
            if concerns(&known) == concerns(&state) {
                return Ok(self.look_with(units, state));
            }
            known = state;
        }
    }

    fn look_with(&self, units: Units, state: State) -> Look {
        let annotations = annotations(&self.node, &self.config);
        let Units { unit, commit_unit, report_unit, shutting_down } = units;
        let working = unit == Unit::Running || commit_unit == Unit::Running;
        Look {
            heartbeat_due: working && alive::is_fresh() && self.is_beat_due(&annotations),
            annotations,
            state,
            unit,
            commit_unit,
            report_unit,
            boot: Boot { id: self.boot_id.clone(), uptime: uptime(), shutting_down },
            version: self.host.version(&self.config.current_version).ok(),
            limits: Limits {
                publish_wait: self.config.publish_max_wait,
                commit_overdue: COMMIT_OVERDUE,
            },
            has_stood: self.will_have_stood().is_none(),
        }
    }

    async fn units(&mut self, known: &State) -> Result<Units, WatchError> {
        let systemd = self.systemd().await?;
        let unit = match &known.operation {
            Some(operation) => seen(systemd.unit(&names::unit(&operation.request)).await?),
            None => Unit::Absent,
        };
        let commit_unit = match known.pending_commit {
            Some(_) => seen_commit(systemd.unit(names::COMMIT).await?),
            None => Unit::Absent,
        };
        Ok(Units {
            unit,
            commit_unit,
            report_unit: seen(systemd.unit(names::REPORT).await?),
            shutting_down: systemd.is_shutting_down().await?,
        })
    }

    /// The connection to the bus; a broken one was dropped.
    pub(super) async fn systemd(&mut self) -> Result<Systemd, WatchError> {
        match &self.systemd {
            Some(systemd) => Ok(systemd.clone()),
            None => Ok(self.systemd.insert(Systemd::connect().await?).clone()),
        }
    }

    /// By the monotonic clock where this process wrote last; else by what the Node says.
    fn is_beat_due(&self, annotations: &Annotations) -> bool {
        let since = match self.last_beat {
            Some(beat) => beat.elapsed(),
            None => since_said(annotations, Utc::now()),
        };
        since >= self.config.heartbeat_interval
    }
}

/// What of a state says which units are looked up.
fn concerns(state: &State) -> (Option<&Request>, bool) {
    let operation = state.operation.as_ref().map(|operation| &operation.request);
    (operation, state.pending_commit.is_some())
}

/// How long ago the Node was last told `InProgress`; a clock that jumped back counts as long ago.
fn since_said(annotations: &Annotations, now: Utc) -> Duration {
    let said = [&annotations.status, &annotations.commit_status];
    let in_progress = said.into_iter().flatten().filter(|status| status.code == Code::InProgress);
    let last = in_progress.map(|status| status.last_updated_utc.second()).max();
    let ago = last.map_or(i64::MAX, |last| now.second().saturating_sub(last));
    u64::try_from(ago).map_or(Duration::MAX, Duration::from_secs)
}

/// What the watcher started itself runs as soon as systemd comes to it.
fn seen(state: UnitState) -> Unit {
    match state {
        UnitState::Absent => Unit::Absent,
        UnitState::Queued | UnitState::Running => Unit::Running,
        UnitState::Ended { result } => Unit::Ended { result },
    }
}

/// What boot has queued may wait for something that never comes.
fn seen_commit(state: UnitState) -> Unit {
    match state {
        UnitState::Queued => Unit::Absent,
        state => seen(state),
    }
}

fn annotations(node: &Seen, config: &Config) -> Annotations {
    match node {
        Seen::Unknown | Seen::Gone => Annotations::default(),
        Seen::Node(node) => Annotations {
            asked: asked(node, config),
            status: status(node, &config.keys.status),
            commit_status: status(node, &config.keys.commit_status),
        },
    }
}

fn asked(node: &Node, config: &Config) -> Asked {
    let Some(text) = node.annotations.get(&config.keys.request) else {
        return Asked::Nothing;
    };
    match Request::parse(text) {
        Ok(request) => {
            let server = request.work.update().map(|update| &update.server);
            let server_allowed = server.is_none_or(|server| config.allowed_servers.allows(server));
            Asked::Request { request, server_allowed }
        }
        Err(broken) => {
            let digest = Sha256::digest(text.as_bytes());
            Asked::Broken {
                digest: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
                broken,
            }
        }
    }
}

fn status(node: &Node, key: &str) -> Option<Status> {
    node.annotations.get(key).and_then(|text| Status::from_json(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Id, Phase};

    #[test]
    fn the_first_heartbeat_comes_too_early_rather_than_never() {
        let at = Utc::from_second;
        let begun = Status::of(Id::nil(), Id::nil(), Phase::Stage, at(1000));
        let said = |status: &Status| Annotations {
            status: Some(status.clone()),
            ..Annotations::default()
        };
        let years = 4_000_000_000;
        for (now, ago) in [(1000, Some(0)), (1059, Some(59)), (999, None), (0, None)] {
            let ago = ago.map_or(Duration::MAX, Duration::from_secs);
            assert_eq!(since_said(&said(&begun), at(now)), ago, "{now}");
        }
        assert_eq!(since_said(&said(&begun), at(years)), Duration::from_secs(4_000_000_000 - 1000));
        let ended = begun.finish(Code::Success, "", at(1000));
        assert!(since_said(&said(&ended), at(1001)) > Duration::from_secs(1_000_000_000));
        assert_eq!(since_said(&Annotations::default(), at(1)).as_secs(), i64::MAX.unsigned_abs());
    }
}
