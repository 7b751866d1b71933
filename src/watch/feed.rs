//! What the Node is, as news for the loop: a task that keeps a client, a first read and a watch going.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use kube::runtime::watcher::DefaultBackoff;
use tokio::sync::{Notify, watch};
use tracing::{info, warn};

use super::gate::Gate;
use crate::config::Config;
use crate::contract::chain;
use crate::host::Host;
use crate::kubernetes::{KubeError, NodeApi, Retry, Seen, node_name};

/// The newest client and what it saw.
#[derive(Debug, Clone, Default)]
pub(super) struct News {
    pub(super) api: Option<NodeApi>,
    pub(super) seen: Seen,
    /// Why there is nothing newer; for the status line.
    pub(super) trouble: Option<String>,
}

#[derive(Debug)]
pub(super) struct Feed {
    config: Config,
    host: Host,
    news: watch::Sender<News>,
    /// Credentials were refused elsewhere: connect anew.
    reconnect: Arc<Notify>,
    failures: u32,
}

impl Feed {
    pub(super) fn new(
        config: Config,
        host: Host,
        reconnect: Arc<Notify>,
    ) -> (Self, watch::Receiver<News>) {
        let (news, receiver) = watch::channel(News::default());
        (Self { config, host, news, reconnect, failures: 0 }, receiver)
    }

    /// For ever: an API server that is away looks like one that comes back.
    pub(super) async fn run(mut self) {
        let mut backoff = DefaultBackoff::default();
        loop {
            let api = self.connect().await;
            self.follow(&api, &mut backoff).await;
            wait(&mut backoff, None).await;
        }
    }

    /// A client, and a first read through it.
    async fn connect(&mut self) -> NodeApi {
        let mut gate = Gate::default();
        loop {
            match self.try_connect().await {
                Ok(api) => return api,
                Err((trouble, at_least)) => {
                    self.trouble(&trouble);
                    gate.close(at_least);
                }
            }
            if let Some(opens) = gate.opens() {
                tokio::time::sleep_until(opens).await;
            }
        }
    }

    async fn try_connect(&mut self) -> Result<NodeApi, (String, Option<Duration>)> {
        let name = node_name(&self.config.kubernetes.node_name, &self.host.hostname())
            .map_err(|error| (chain(&error), None))?;
        let failed = |error: KubeError| (chain(&error), retry_after(&error));
        let machine = self.host.product_uuid();
        let api = NodeApi::new(&self.config.kubernetes, &name, machine).await.map_err(failed)?;
        let seen = api.get().await.map_err(failed)?;
        self.tell(Some(&api), seen);
        Ok(api)
    }

    /// Until something fails: then a new client, which reads the credentials anew.
    async fn follow(&mut self, api: &NodeApi, backoff: &mut DefaultBackoff) {
        let mut stream = api.watch();
        let reconnect = Arc::clone(&self.reconnect);
        loop {
            // Both arms may be dropped at any time: what they would have brought is read anew.
            let item = tokio::select! {
                item = stream.next() => item,
                () = reconnect.notified() => return,
            };
            match item {
                Some(Ok(seen)) => {
                    kube::runtime::utils::Backoff::reset(backoff);
                    self.tell(None, seen);
                }
                Some(Err(error)) => {
                    self.trouble(&chain(&error));
                    if matches!(error.retry(), Retry::Reconnect | Retry::Refused) {
                        return;
                    }
                    wait(backoff, retry_after(&error)).await;
                }
                None => return,
            }
        }
    }

    fn tell(&mut self, api: Option<&NodeApi>, seen: Seen) {
        if self.failures > 0 {
            info!(failures = self.failures, "the API server answers again");
            self.failures = 0;
        }
        self.news.send_if_modified(|news| {
            let changed = news.seen != seen || api.is_some() || news.trouble.is_some();
            if let Some(api) = api {
                news.api = Some(api.clone());
            }
            news.seen = seen;
            news.trouble = None;
            changed
        });
    }

    /// The first failure is a warning, the rest of them show in the status line.
    fn trouble(&mut self, trouble: &str) {
        if self.failures == 0 {
            warn!("cannot read the Node, trying again for ever: {}", trouble);
        }
        self.failures = self.failures.saturating_add(1);
        self.news.send_if_modified(|news| {
            let changed = news.trouble.as_deref() != Some(trouble);
            news.trouble = Some(trouble.to_owned());
            changed
        });
    }
}

fn retry_after(error: &KubeError) -> Option<Duration> {
    match error.retry() {
        Retry::Later(after) => after,
        Retry::Reconnect | Retry::Refused => None,
    }
}

async fn wait(backoff: &mut DefaultBackoff, at_least: Option<Duration>) {
    let delay = backoff.next().unwrap_or(Duration::from_secs(30));
    tokio::time::sleep(delay.max(at_least.unwrap_or_default())).await;
}
