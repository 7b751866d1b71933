//! Publishing: one annotation at a time, recorded as published only once the API server has it.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{Instrument, error, info, warn};

use super::{WatchError, Watcher};
use crate::contract::chain;
use crate::contract::{Code, Status, status_span};
use crate::decide::{Key, Mark, Publish, published};
use crate::kubernetes::{KubeError, Node, NodeApi, Retry, Seen};

/// The same status is not written again sooner.
const REPEAT: Duration = Duration::from_secs(10);
/// What the server understood and refused is not written again sooner.
const REFUSED: Duration = Duration::from_secs(15);

impl Watcher {
    /// Whether something was written.
    pub(super) async fn say(&mut self, publish: Publish) -> Result<bool, WatchError> {
        let (Some(api), Seen::Node(node)) = (self.api.clone(), self.node.clone()) else {
            return Ok(false);
        };
        if self.may_repeat().is_some() && self.was_said_last(&publish) {
            return Ok(false);
        }
        let span = status_span(&publish.status);
        self.say_through(&api, &node, publish).instrument(span).await
    }

    /// When the last status may be written once more; `None`: now. Where somebody else writes our annotation
    /// too, or the server drops what it took, the two of us are not to race.
    pub(super) fn may_repeat(&self) -> Option<Instant> {
        self.after_last_said(REPEAT.min(self.config.heartbeat_interval))
    }

    /// When what was written last has stood for as long as a heartbeat does; `None`: it has.
    pub(super) fn will_have_stood(&self) -> Option<Instant> {
        self.after_last_said(self.config.heartbeat_interval)
    }

    /// `None`: it is over.
    fn after_last_said(&self, wait: Duration) -> Option<Instant> {
        let (said, _) = self.last_said.as_ref()?;
        let over = *said + wait;
        (Instant::now() < over).then_some(over)
    }

    fn was_said_last(&self, publish: &Publish) -> bool {
        let last = self.last_said.as_ref();
        last.is_some_and(|(_, last)| {
            last.key == publish.key && last.status.says_the_same(&publish.status)
        })
    }

    async fn say_through(
        &mut self,
        api: &NodeApi,
        node: &Node,
        publish: Publish,
    ) -> Result<bool, WatchError> {
        let key = match publish.key {
            Key::Status => self.config.keys.status.clone(),
            Key::CommitStatus => self.config.keys.commit_status.clone(),
        };
        match self.write(api, node, &key, &publish.status).await {
            Ok(Seen::Node(node)) => {
                self.node = Seen::Node(node);
                self.last_said = Some((Instant::now(), publish.clone()));
                self.written(&publish)?;
                Ok(true)
            }
            Ok(gone) => {
                self.node = gone;
                // The watch may not know of it yet.
                self.said.close(None);
                Ok(false)
            }
            Err(error) => {
                self.not_written(&error);
                Ok(false)
            }
        }
    }

    fn written(&mut self, publish: &Publish) -> Result<(), WatchError> {
        let failures = self.said.reset();
        if failures > 0 {
            info!(failures, "the API server takes statuses again");
        }
        if publish.status.code == Code::InProgress {
            self.last_beat = Some(Instant::now());
        }
        if publish.mark != Mark::Nothing {
            self.store.update(|state| published(state, publish))?;
            let (code, message) = (publish.status.code, &publish.status.message);
            info!(?code, "published {code:?}: {message}");
        }
        Ok(())
    }

    fn not_written(&mut self, error: &KubeError) {
        if self.said.failures() == 0 {
            error!("cannot publish the status, trying again for ever: {}", chain(error));
        }
        let asked = error.retry_after();
        let at_least = match error.retry() {
            Retry::Later => asked,
            Retry::Reconnect => {
                self.api = None;
                asked
            }
            Retry::Refused => asked.max(Some(REFUSED)),
        };
        self.said.close(at_least);
    }

    /// All annotations of a Node together are limited: where the server refuses for that, the shortest
    /// status that is still valid has a better chance.
    async fn write(
        &self,
        api: &NodeApi,
        node: &Node,
        key: &str,
        status: &Status,
    ) -> Result<Seen, KubeError> {
        match api.annotate(node, key, &status.to_json()).await {
            Err(error) if error.is_too_large() && !status.message.as_str().is_empty() => {
                if self.said.failures() == 0 {
                    warn!(
                        "the status was refused, writing it without its message: {}",
                        chain(&error)
                    );
                }
                api.annotate(node, key, &status.clone().with_message("").to_json()).await
            }
            written => written,
        }
    }
}
