//! The resident loop.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, error, info};

use super::feed::{Feed, News};
use super::gate::jittered;
use super::look::Look;
use super::{Setup, WatchError, Watcher, names};
use crate::config::{EXPORT_PATH, exported};
use crate::contract::chain;
use crate::kubernetes::{Node, Retry, Seen};
use crate::state::replace;
use crate::systemd::{follow_jobs, watchdog_interval};

/// Most steps before the loop listens again.
const MAX_STEPS: u32 = 32;
/// How often everything is read anew, whatever the signals said; jittered by half.
const REREAD: Duration = Duration::from_secs(300);

/// Watches until it is told to stop.
///
/// # Errors
/// What cannot be waited out: the host's own facts, or a Node gone for longer than the settings allow.
pub async fn run(setup: Setup) -> Result<(), WatchError> {
    export_environment()?;
    let mut watcher = Watcher::new(setup)?;
    let jobs = Arc::new(Notify::new());
    let reconnect = Arc::new(Notify::new());
    let (feed, news) =
        Feed::new(watcher.config.clone(), watcher.host.clone(), Arc::clone(&reconnect));
    let feeding = tokio::spawn(feed.run());
    let listening = tokio::spawn({
        let jobs = Arc::clone(&jobs);
        async move { follow_jobs(names::PREFIX, &jobs).await }
    });
    watcher.notifier.ready();
    let ended = Loop::new(watcher, news, jobs, reconnect).run().await;
    feeding.abort();
    listening.abort();
    ended
}

/// # Errors
/// The `RuntimeDirectory=` cannot be written.
pub(super) fn export_environment() -> Result<(), WatchError> {
    let environment = exported(std::env::vars_os());
    let text = serde_json::to_vec(&environment).unwrap_or_default();
    replace(EXPORT_PATH.as_ref(), &text)
        .map_err(|source| WatchError::Export { path: EXPORT_PATH, source })
}

pub(super) struct Loop {
    pub(super) watcher: Watcher,
    pub(super) news: watch::Receiver<News>,
    jobs: Arc<Notify>,
    reconnect: Arc<Notify>,
    gone: Gone,
    reread: Instant,
}

impl Loop {
    pub(super) fn new(
        watcher: Watcher,
        news: watch::Receiver<News>,
        jobs: Arc<Notify>,
        reconnect: Arc<Notify>,
    ) -> Self {
        let gone = Gone::for_at_most(watcher.config.node_gone_max_wait);
        Self { watcher, news, jobs, reconnect, gone, reread: next_reread() }
    }

    async fn run(mut self) -> Result<(), WatchError> {
        let mut stop =
            signal(SignalKind::terminate()).map_err(|source| WatchError::Signal { source })?;
        // A pass may be left at any of its waits: those are for a neighbour's answer, each step before is
        // recorded, and whoever comes next looks anew. What is written to the disk is not waited for here.
        tokio::select! {
            _ = stop.recv() => {}
            ended = self.go_on() => return ended,
        }
        info!("told to stop");
        self.watcher.notifier.stopping();
        Ok(())
    }

    /// Until it cannot be waited out.
    async fn go_on(&mut self) -> Result<(), WatchError> {
        loop {
            self.watcher.notifier.watchdog();
            self.take_news();
            let News { trouble, is_current, .. } = self.news.borrow().clone();
            self.gone.check(&self.watcher.node, is_current)?;
            let look = self.watcher.pass().await;
            self.watcher.announce(look.as_ref(), trouble.as_deref());
            self.reconnect();
            let wake = self.wake(look.as_ref());
            // Nothing is lost by dropping an arm: each brings only the reason to look again.
            tokio::select! {
                () = self.jobs.notified() => {}
                changed = self.news.changed() => if changed.is_err() { pending::<()>().await },
                () = sleep_until(wake) => {}
            }
            if Instant::now() >= self.reread {
                self.read_anew().await;
            }
        }
    }

    /// Credentials that were refused are read anew. News that nobody has taken yet may bring the first client.
    pub(super) fn reconnect(&self) {
        let is_taken = !self.news.has_changed().unwrap_or_default();
        if is_taken && self.watcher.api.is_none() && self.news.borrow().api.is_some() {
            self.reconnect.notify_one();
        }
    }

    pub(super) fn take_news(&mut self) {
        let news = self.news.borrow_and_update();
        if news.api.is_some() {
            self.watcher.api.clone_from(&news.api);
        }
        if !is_older(&news.seen, &self.watcher.node) {
            self.watcher.node.clone_from(&news.seen);
        }
    }

    /// A net below watch and signals.
    pub(super) async fn read_anew(&mut self) {
        self.reread = next_reread();
        let Some(api) = &self.watcher.api else { return };
        match api.get().await {
            // Nothing was written meanwhile. Its version may be older all the same: of a store that was restored.
            Ok(seen) => self.watcher.node = seen,
            // The watch may hang on to the same server without knowing.
            Err(error) if error.retry() == Retry::Reconnect => {
                debug!("the slow re-read failed, connecting anew: {}", chain(&error));
                self.reconnect.notify_one();
            }
            Err(error) => {
                debug!("the slow re-read failed, ignoring: the watch goes on: {}", chain(&error))
            }
        }
    }

    fn wake(&self, look: Option<&Look>) -> Instant {
        let watcher = &self.watcher;
        let now = Instant::now();
        let gates = [&watcher.said, &watcher.acted, &watcher.delivered, &watcher.looked];
        let gates = gates.into_iter().filter_map(|gate| gate.opens());
        let said = watcher.may_repeat().into_iter().chain(watcher.will_have_stood());
        let beat = look.filter(|look| look.is_working()).map(|_| {
            let interval = watcher.config.heartbeat_interval;
            watcher.last_beat.map_or(now + interval, |beat| beat + interval).max(now + SHORTEST)
        });
        let armed = look.and_then(|look| look.state.pending_commit.as_ref()).map(|_| now + POLL);
        let gone = self.gone.since.map(|_| now + POLL);
        let watchdog = watchdog_interval().map(|interval| now + interval);
        gates
            .chain(said)
            .chain(beat)
            .chain(armed)
            .chain(gone)
            .chain(watchdog)
            .fold(self.reread, Instant::min)
    }
}

/// A heartbeat that could not be written is not tried more often than this.
const SHORTEST: Duration = Duration::from_secs(5);
/// How often a wait is looked at that no signal ends.
const POLL: Duration = Duration::from_secs(2);

/// For how long the Node has been gone. A return begins it anew.
#[derive(Debug, Default)]
struct Gone {
    since: Option<Instant>,
    limit: Option<Duration>,
}

impl Gone {
    fn for_at_most(limit: Option<Duration>) -> Self {
        Self { since: None, limit }
    }

    /// While the API server does not answer, nobody knows whether the Node is back.
    fn check(&mut self, node: &Seen, is_current: bool) -> Result<(), WatchError> {
        if *node != Seen::Gone {
            self.since = None;
            return Ok(());
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        match self.limit {
            Some(limit) if waited >= limit && is_current => {
                Err(WatchError::NodeGoneTooLong { limit })
            }
            _ => Ok(()),
        }
    }
}

fn next_reread() -> Instant {
    Instant::now() + REREAD / 2 + jittered(REREAD / 2)
}

/// Our own write came back before the watch told of what was before it.
fn is_older(new: &Seen, known: &Seen) -> bool {
    let version = |node: &Node| node.resource_version.parse::<u64>().ok();
    match (new, known) {
        (Seen::Node(new), Seen::Node(known)) if new.uid == known.uid => {
            version(new).zip(version(known)).is_some_and(|(new, known)| new < known)
        }
        (Seen::Unknown, known) => *known != Seen::Unknown,
        _ => false,
    }
}

impl Watcher {
    /// Looks, decides and does, until there is nothing left to do now. `None`: it could not look.
    pub(super) async fn pass(&mut self) -> Option<Look> {
        let mut last = None;
        for _ in 0..MAX_STEPS {
            match self.step().await {
                Ok((look, true)) => last = Some(look),
                Ok((look, false)) => {
                    self.trouble = None;
                    let failures = self.looked.reset();
                    if failures > 0 {
                        info!(failures, "going on");
                    }
                    return Some(look);
                }
                Err(error) => {
                    let trouble = chain(&error);
                    if self.looked.failures() == 0 {
                        error!("cannot go on, trying again for ever: {trouble}");
                    }
                    self.trouble = Some(trouble);
                    self.looked.close(None);
                    // Whatever broke may be the connection: a new one next time.
                    self.systemd = None;
                    return last;
                }
            }
        }
        last
    }

    /// Whether there is something new to look at.
    async fn step(&mut self) -> Result<(Look, bool), WatchError> {
        let look = self.look().await?;
        let plan = look.plan();
        let mut news = false;
        if look.state.owed_events.is_empty() {
            self.delivered.reset();
        }
        if plan.deliver && self.delivered.is_open() {
            news |= self.deliver().await?;
        }
        if let Some(publish) = plan.say.filter(|_| self.said.is_open()) {
            news |= self.say(publish).await?;
        }
        news |= self.act(plan.act, &look.state).await?;
        Ok((look, news))
    }
}

#[cfg(test)]
mod tests;
