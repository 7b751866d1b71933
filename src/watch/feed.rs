//! What the Node is, as news for the loop: a task that keeps a client, a first read and a watch going.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{info, warn};

use super::gate::Gate;
use crate::config::Config;
use crate::contract::chain;
use crate::host::Host;
use crate::kubernetes::{Heard, KubeError, NodeApi, Retry, Seen, node_name};

/// A watch that went well for so long begins anew with the shortest wait, however quiet its Node was.
const WENT_WELL: Duration = Duration::from_secs(30);

/// A watch that is open for so long works.
const CALM: Duration = Duration::from_secs(5);
/// So many watches in a row that were not are a trouble.
const TOO_SHORT: u32 = 3;

/// The newest client and what it saw.
#[derive(Debug, Clone, Default)]
pub(super) struct News {
    pub(super) api: Option<NodeApi>,
    pub(super) seen: Seen,
    /// The last attempt to know better succeeded.
    pub(super) is_current: bool,
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
    /// In a row.
    short_watches: u32,
}

impl Feed {
    pub(super) fn new(
        config: Config,
        host: Host,
        reconnect: Arc<Notify>,
    ) -> (Self, watch::Receiver<News>) {
        let (news, receiver) = watch::channel(News::default());
        (Self { config, host, news, reconnect, failures: 0, short_watches: 0 }, receiver)
    }

    /// For ever: an API server that is away looks like one that comes back.
    pub(super) async fn run(mut self) {
        let mut pause = Pause::default();
        let mut api = self.connect().await;
        loop {
            let asked = self.follow(&api, &mut pause).await;
            pause.wait(asked).await;
            let old = std::mem::replace(&mut api, self.connect().await);
            // Whatever ended the watch, and whenever they were.
            if old.is_outdated() {
                info!("the credentials were replaced, connected anew");
            }
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
                sleep_until(opens).await;
            }
        }
    }

    async fn try_connect(&mut self) -> Result<NodeApi, (String, Option<Duration>)> {
        let name = node_name(&self.config.kubernetes.node_name, &self.host.hostname())
            .map_err(|error| (chain(&error), None))?;
        let failed = |error: KubeError| (chain(&error), error.retry_after());
        let machine = self.host.product_uuid();
        let api = NodeApi::new(&self.config, &name, machine).map_err(failed)?;
        let seen = api.get().await.map_err(failed)?;
        self.tell(Some(&api), seen);
        Ok(api)
    }

    /// Until a new client is needed, which reads the credentials anew; how long to wait at least before.
    async fn follow(&mut self, api: &NodeApi, pause: &mut Pause) -> Option<Duration> {
        let mut watch = api.watch();
        let mut open = None;
        let reconnect = Arc::clone(&self.reconnect);
        loop {
            let calm = open.filter(|_| self.failures > 0).map(|since| since + CALM);
            // Each arm may be dropped at any time: what it would have brought is read anew.
            tokio::select! {
                heard = watch.next() => {
                    if let Break(asked) = self.hear(heard, api, &mut open, pause).await {
                        return asked;
                    }
                }
                () = sleep_until(calm.unwrap_or_else(Instant::now)), if calm.is_some() => {
                    self.recovered();
                }
                () = reconnect.notified() => return None,
            }
        }
    }

    /// Whether to go on with this client. `open`: since when the watch is.
    async fn hear(
        &mut self,
        heard: Result<Heard, KubeError>,
        api: &NodeApi,
        open: &mut Option<Instant>,
        pause: &mut Pause,
    ) -> ControlFlow<Option<Duration>> {
        match heard {
            Ok(Heard::Begun) => *open = Some(Instant::now()),
            Ok(Heard::Seen(seen)) => {
                self.tell(None, seen);
                if open.is_some() {
                    self.recovered();
                }
            }
            Ok(Heard::Ended) => {
                self.ended(open.take());
                if api.is_outdated() {
                    return Break(None);
                }
                pause.wait(None).await;
            }
            Err(error) => {
                *open = None;
                self.trouble(&chain(&error));
                if matches!(error.retry(), Retry::Reconnect | Retry::Refused) {
                    return Break(error.retry_after());
                }
                pause.wait(error.retry_after()).await;
                if api.is_outdated() {
                    return Break(None);
                }
            }
        }
        Continue(())
    }

    /// A server ends each watch after minutes; something that ends it at once lets nobody watch.
    fn ended(&mut self, open: Option<Instant>) {
        if open.is_some_and(|since| since.elapsed() >= CALM) {
            self.short_watches = 0;
            self.recovered();
        } else {
            self.short_watches = self.short_watches.saturating_add(1);
            if self.short_watches >= TOO_SHORT {
                self.trouble("watching the Node: each watch ends at once");
            }
        }
    }

    fn tell(&mut self, api: Option<&NodeApi>, seen: Seen) {
        self.news.send_if_modified(|news| {
            // What changes nothing for us wakes nobody.
            let changed = !news.seen.says_the_same(&seen) || api.is_some() || !news.is_current;
            if let Some(api) = api {
                news.api = Some(api.clone());
            }
            news.seen = seen;
            news.is_current = true;
            changed
        });
    }

    /// Not before the watch has held: a server that lets itself be read but not watched would recover all the
    /// time.
    fn recovered(&mut self) {
        if self.failures > 0 {
            info!(failures = self.failures, "the API server answers again");
            self.failures = 0;
            self.news.send_modify(|news| news.trouble = None);
        }
    }

    /// The first failure is a warning, the rest of them show in the status line.
    fn trouble(&mut self, trouble: &str) {
        if self.failures == 0 {
            warn!("cannot read the Node, trying again for ever: {}", trouble);
        }
        self.failures = self.failures.saturating_add(1);
        self.news.send_if_modified(|news| {
            let changed = news.trouble.as_deref() != Some(trouble) || news.is_current;
            news.trouble = Some(trouble.to_owned());
            news.is_current = false;
            changed
        });
    }
}

/// The waits of the watch: kube's own, longer each time, until something went well.
struct Pause {
    backoff: DefaultBackoff,
    /// When the last wait was over.
    over: Instant,
}

impl Default for Pause {
    fn default() -> Self {
        Self { backoff: DefaultBackoff::default(), over: Instant::now() }
    }
}

impl Pause {
    async fn wait(&mut self, at_least: Option<Duration>) {
        if self.over.elapsed() >= WENT_WELL {
            self.backoff.reset();
        }
        let delay = self.backoff.next().unwrap_or(Duration::from_secs(30));
        sleep(at_least.unwrap_or_default() + delay).await;
        self.over = Instant::now();
    }
}
