//! What the watcher does with an API server that misbehaves, for hours, in no time: the clock is paused and
//! goes on whenever nobody has anything left to do.

mod feed;
mod rates;
mod say;

use std::ffi::OsString;
use std::fmt::{Debug, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tempfile::TempDir;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::Level;
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use trident_lab::kube::{KubeApi, Kubelet};
use trident_lab::tls::Pki;

use super::feed::{Feed, News};
use super::{Setup, Watcher};
use crate::config::{Config, PREFIX};
use crate::host::Host;

const NODE: &str = "node-1";
const REQUEST: &str = "acl.microsoft.com/update-request";
const MINUTE: Duration = Duration::from_secs(60);
/// What a packet takes at most, by the paused clock. Shorter ones cost more turns.
const TICK: Duration = Duration::from_secs(1);
/// What each tick leaves the kernel to hand bytes over, by the real clock: on a busy machine it is not at once.
const GRACE: Duration = Duration::from_millis(2);
/// Of the paused clock: nobody waits for it.
const AMPLE: Duration = Duration::from_secs(3600);

/// An API server, a kubelet's files, and a host.
struct Cluster {
    pki: Pki,
    api: KubeApi,
    url: String,
    kubelet: Kubelet,
    root: TempDir,
    clock: JoinHandle<()>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.clock.abort();
    }
}

impl Cluster {
    fn new() -> Result<Self> {
        static RING: Once = Once::new();
        RING.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let pki = Pki::new();
        let api = KubeApi::new(&pki);
        api.add_node(NODE);
        let listening = api.serve(TcpListener::bind("127.0.0.1:0")?)?;
        let url = format!("https://{}", listening.addr);
        let kubelet = Kubelet::new(&pki, &url, NODE)?;
        let cluster = Self {
            pki,
            api,
            url,
            kubelet,
            root: tempfile::tempdir()?,
            clock: tokio::spawn(keep_time()),
        };
        cluster.host_file("etc/machine-id", "0b1f3a6d9c5e4c06a7d2f0a1b2c3d4e5\n")?;
        cluster.host_file("proc/sys/kernel/random/boot_id", "this boot\n")?;
        Ok(cluster)
    }

    #[expect(clippy::disallowed_methods, reason = "a test's own file")]
    fn host_file(&self, name: &str, text: &str) -> Result<()> {
        let path = self.root.path().join(name);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        Ok(std::fs::write(path, text)?)
    }

    fn host(&self) -> Host {
        Host::new(self.root.path())
    }

    /// The settings: these, and those that lead here.
    fn config(&self, settings: &[(&str, &str)]) -> Result<Config> {
        let kubeconfig = self.kubelet.kubeconfig().display().to_string();
        let state = self.root.path().join("state/state.json").display().to_string();
        let here = [
            ("KUBERNETES_KUBECONFIG", kubeconfig.as_str()),
            ("ORCHESTRATION_STATE_PATH", state.as_str()),
            ("KUBERNETES_NODE_NAME", NODE),
        ];
        let given = |name: &str| settings.iter().any(|(given, _)| *given == name);
        let all = here.iter().filter(|(name, _)| !given(name)).chain(settings);
        let all =
            all.map(|(name, value)| (OsString::from(format!("{PREFIX}{name}")), value.into()));
        Ok(Config::load(all)?.config)
    }

    /// A feed at work.
    fn feed(&self, settings: &[(&str, &str)]) -> Result<Fed> {
        let reconnect = Arc::new(Notify::new());
        let (feed, news) = Feed::new(self.config(settings)?, self.host(), Arc::clone(&reconnect));
        Ok(Fed { news, reconnect, task: tokio::spawn(feed.run()) })
    }

    fn watcher(&self) -> Result<Watcher> {
        let setup = Setup {
            config: self.config(&[])?,
            host: self.host(),
            program: "/usr/bin/trident-acl-agent".into(),
        };
        Ok(Watcher::new(setup)?)
    }

    fn ask(&self, text: &str) {
        self.api.annotate(NODE, REQUEST, Some(text));
    }
}

/// The paused clock jumps to the next timer while bytes are still under way: here is always a near one, and
/// while a thread blocks it does not jump.
#[expect(clippy::disallowed_methods, reason = "by the real clock, in a thread of its own")]
async fn keep_time() {
    while tokio::task::spawn_blocking(|| std::thread::sleep(GRACE)).await.is_ok() {
        sleep(TICK).await;
    }
}

/// A feed in its task.
struct Fed {
    news: watch::Receiver<News>,
    reconnect: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Drop for Fed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fed {
    /// Waits for news that are so.
    async fn until(&mut self, what: &str, is_so: impl FnMut(&News) -> bool) -> Result<News> {
        if let Ok(news) = timeout(AMPLE, self.news.wait_for(is_so)).await {
            return Ok(news?.clone());
        }
        anyhow::bail!("never: {what}: {:?}", self.news.borrow())
    }
}

/// The agent's own records from INFO on, of this thread, while it lives.
struct Log {
    lines: Lines,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Log {
    fn new() -> Self {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::registry().with(lines.clone());
        Self { lines, _guard: tracing::subscriber::set_default(subscriber) }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<S: tracing::Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let ours = metadata.target().starts_with("trident_acl_agent");
        if ours && *metadata.level() <= Level::INFO {
            let mut line = Line(metadata.level().to_string());
            event.record(&mut line);
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.0);
        }
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}
