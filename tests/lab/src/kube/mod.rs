//! A Kubernetes API server that knows Nodes and nothing else.
//!
//! It serves get, list, watch and patch of Nodes over TLS, with the checks that a kubelet's
//! credential meets in a real cluster, and fails on demand. Every status that a client writes is held to the
//! contract: a test that drops this with one that is not has failed.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::tls::faults::Rule;
use crate::tls::serve::{Connections, Front, Listening, RequestRecord, server_config};
use crate::tls::{Credential, Pki};

mod answer;
mod auth;
mod changes;
pub(crate) mod contract;
mod kubelet;
mod object;
mod patch;
mod server;
mod store;
mod watch;

pub use auth::User;
pub use changes::Changes;
pub use kubelet::Kubelet;
pub use object::node as fresh_node;
pub use server::GoneAs;
pub use store::{Author, Change};
pub use watch::WatchCut;

pub use crate::tls::faults::{Fault, Verb};

use auth::Gate;
use server::{Api, Brain};

/// The names in the server's certificate unless a test gives its own.
const NAMES: [&str; 4] = ["localhost", "127.0.0.1", "::1", "kubernetes.default.svc"];

/// What a scenario needs of an API server, be it this stand-in or a real one.
pub trait ApiServer: Send + Sync {
    /// Adds a fresh Node.
    fn add_node(&self, name: &str) -> Result<()>;

    /// Sets or removes an annotation, as an orchestrator.
    fn annotate(&self, node: &str, key: &str, value: Option<&str>) -> Result<()>;

    /// Every annotation change of a Node, oldest first.
    fn history(&self, node: &str) -> Vec<Change>;

    /// Every status that the agent wrote, by the contract.
    fn check_statuses(&self) -> Result<()>;

    /// Serves on a bound listener too.
    fn serve(&self, listener: TcpListener) -> Result<()>;

    /// Waits until `wanted` holds for a value of an annotation, however brief.
    fn wait_for_annotation(
        &self,
        node: &str,
        key: &str,
        limit: Duration,
        wanted: impl Fn(&Value) -> bool + Send + Sync,
    ) -> impl Future<Output = Result<Value>> + Send;
}

impl ApiServer for KubeApi {
    fn add_node(&self, name: &str) -> Result<()> {
        Self::add_node(self, name);
        Ok(())
    }

    fn annotate(&self, node: &str, key: &str, value: Option<&str>) -> Result<()> {
        Self::annotate(self, node, key, value);
        Ok(())
    }

    fn history(&self, node: &str) -> Vec<Change> {
        Self::history(self, node)
    }

    fn check_statuses(&self) -> Result<()> {
        Self::check_statuses(self)
    }

    fn serve(&self, listener: TcpListener) -> Result<()> {
        Self::serve(self, listener).map(drop)
    }

    async fn wait_for_annotation(
        &self,
        node: &str,
        key: &str,
        limit: Duration,
        wanted: impl Fn(&Value) -> bool + Send + Sync,
    ) -> Result<Value> {
        Self::wait_for_annotation(self, node, key, limit, wanted).await
    }
}

/// The stand-in's handle; clones share it.
#[derive(Clone)]
pub struct KubeApi {
    brain: Arc<Brain>,
    front: Front,
    _held: Arc<Held>,
}

/// Fails the test that ends with a status against the contract.
struct Held(Arc<Brain>);

impl Drop for Held {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let breaches = &self.0.store().breaches;
            assert!(breaches.is_empty(), "against the contract: {}", breaches.join("\n"));
        }
    }
}

impl KubeApi {
    /// A server with a certificate for the loopback names and no Nodes.
    pub fn new(pki: &Pki) -> Self {
        Self::with_names(pki, &NAMES)
    }

    /// A server with a certificate for these names and addresses.
    pub fn with_names(pki: &Pki, names: &[&str]) -> Self {
        let gate = Gate::new(pki);
        let tls = server_config(&pki.server_cert(names), Some(gate.handshake()));
        let brain = Arc::new(Brain::new(gate));
        let api = Arc::new(Api(brain.clone()));
        let front = Front::new(api, tls.expect("a fresh certificate is usable"));
        let _held = Arc::new(Held(brain.clone()));
        Self { brain, front, _held }
    }

    /// Serves on a bound listener; may be called for several. Needs a tokio runtime.
    pub fn serve(&self, listener: TcpListener) -> Result<Listening> {
        self.front.serve(listener)
    }

    /// Replaces the server's certificate for new connections.
    pub fn set_server_cert(&self, credential: &Credential) -> Result<()> {
        self.front.set_tls(server_config(credential, Some(self.brain.gate.handshake()))?);
        Ok(())
    }

    /// From now on new connections need a client certificate that is good already in the handshake, as a load
    /// balancer may ask for it.
    pub fn demand_client_certs(&self, credential: &Credential) -> Result<()> {
        self.front.set_tls(server_config(credential, Some(self.brain.gate.demand()))?);
        Ok(())
    }

    /// A client certificate counts no more, as after its end: 401, on established connections too.
    pub fn revoke(&self, credential: &Credential) {
        self.brain.gate.revoke(credential.serial());
    }

    /// Makes a bearer token stand for a user, or for nobody.
    pub fn set_token(&self, token: &str, user: Option<User>) {
        self.brain.gate.set_token(token, user);
    }

    /// How often a watch that allows bookmarks gets one; a minute unless set.
    pub fn set_bookmark_interval(&self, interval: Duration) {
        self.brain.settings.lock().expect("no panic under lock").bookmark_interval = interval;
    }

    /// Adds a fresh Node. Panics if it is there.
    pub fn add_node(&self, name: &str) {
        self.brain.change(|store| store.add(name));
    }

    /// Deletes a Node. Panics if it is not there.
    pub fn delete_node(&self, name: &str) {
        self.brain.change(|store| store.remove(name));
    }

    /// Deletes a Node and adds a fresh one of that name, with another uid and no history on it.
    pub fn recreate_node(&self, name: &str) {
        self.brain.change(|store| {
            store.remove(name);
            store.add(name);
        });
    }

    /// The Node as it is.
    pub fn node(&self, name: &str) -> Option<Value> {
        self.brain.store().get(name).map(|node| Value::clone(&node))
    }

    /// Changes a Node in any way, as the test.
    pub fn modify(&self, name: &str, change: impl FnOnce(&mut Value)) {
        self.brain.change(|store| {
            let mut node =
                Value::clone(&*store.get(name).unwrap_or_else(|| panic!("no Node {name}")));
            change(&mut node);
            store.replace(node, &Author::Test);
        });
    }

    /// Sets or removes an annotation, as an orchestrator.
    pub fn annotate(&self, name: &str, key: &str, value: Option<&str>) {
        self.modify(name, |node| store::set_annotation(node, key, value));
    }

    /// Sets several annotations in one change, so that nobody sees one without the other.
    pub fn annotate_together(&self, name: &str, annotations: &[(&str, &str)]) {
        self.modify(name, |node| {
            for (key, value) in annotations {
                store::set_annotation(node, key, Some(value));
            }
        });
    }

    /// An annotation's value.
    pub fn annotation(&self, name: &str, key: &str) -> Option<String> {
        let node = self.brain.store().get(name)?;
        node["metadata"]["annotations"][key].as_str().map(str::to_owned)
    }

    /// Sets `status.nodeInfo.systemUUID`.
    pub fn set_system_uuid(&self, name: &str, uuid: &str) {
        self.modify(name, |node| node["status"]["nodeInfo"]["systemUUID"] = uuid.into());
    }

    /// A kubelet's heartbeat: new times in the conditions, nothing else.
    pub fn touch(&self, name: &str) {
        // Microseconds keep two heartbeats within a second apart; the real API has whole seconds.
        let now = Value::from(jiff::Timestamp::now().to_string());
        self.modify(name, |node| {
            let conditions = node["status"]["conditions"].as_array_mut();
            for condition in conditions.into_iter().flatten() {
                condition["lastHeartbeatTime"] = now.clone();
            }
        });
    }

    /// Every annotation change of a Node, oldest first.
    pub fn history(&self, name: &str) -> Vec<Change> {
        let store = self.brain.store();
        store.history.iter().filter(|change| change.node == name).cloned().collect()
    }

    /// Fails where a client wrote a status against the contract.
    pub fn check_statuses(&self) -> Result<()> {
        let breaches = self.brain.store().breaches.join("\n");
        ensure!(breaches.is_empty(), "against the contract: {breaches}");
        Ok(())
    }

    /// Every annotation change from now on.
    pub fn subscribe(&self) -> Changes {
        Changes::new(self.brain.clone())
    }

    /// Waits until `wanted` holds for an annotation: for its value now, or for any value that it
    /// takes from now on, however briefly.
    pub async fn wait_for_annotation(
        &self,
        name: &str,
        key: &str,
        timeout: Duration,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let mut changes = self.subscribe();
        if let Some(text) = self.annotation(name, key) {
            let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
            if wanted(&value) {
                return Ok(value);
            }
        }
        let fits =
            |c: &Change| c.node == name && c.key == key && c.value.is_some() && wanted(&c.json());
        Ok(changes.wait_for(timeout, fits).await?.json())
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.front.records()
    }

    /// How many requests of a verb there were.
    pub fn count(&self, verb: Verb) -> usize {
        self.front.records().iter().filter(|record| record.verb == verb).count()
    }

    /// How many watches were answered with 200 and are still open.
    pub fn open_watches(&self) -> usize {
        open_watches(&self.front.records())
    }

    /// Waits until so many watches are open.
    pub async fn wait_for_watches(&self, count: usize, timeout: Duration) -> Result<()> {
        self.wait_for_requests(timeout, |records| open_watches(records) >= count).await.map(drop)
    }

    /// Waits until `done` holds for the requests.
    pub async fn wait_for_requests(
        &self,
        timeout: Duration,
        done: impl Fn(&[RequestRecord]) -> bool,
    ) -> Result<Vec<RequestRecord>> {
        self.front.wait_for(timeout, done).await
    }

    /// How many connections there have been.
    pub fn connections(&self) -> Connections {
        self.front.connections()
    }

    /// Fails from now on.
    pub fn inject(&self, rule: impl Into<Rule>) {
        self.front.inject(rule.into());
    }

    /// Stops failing; connections that went silent stay silent.
    pub fn clear_faults(&self) {
        self.front.clear_faults();
    }

    /// Ends every current watch.
    pub fn cut_watches(&self, cut: WatchCut) {
        self.brain.bell.send_modify(|bell| {
            bell.cuts += 1;
            bell.cut = cut;
        });
    }

    /// Resets every established connection.
    pub fn reset_connections(&self) {
        self.front.reset_connections();
    }

    /// Forgets old events: a watch from a resourceVersion of before is told that it is gone.
    pub fn compact(&self, gone_as: GoneAs) {
        self.brain.settings.lock().expect("no panic under lock").gone_as = gone_as;
        self.brain.change(store::Store::compact);
    }
}

fn open_watches(records: &[RequestRecord]) -> usize {
    let open = |r: &&RequestRecord| r.verb == Verb::Watch && r.status == Some(200) && !r.ended;
    records.iter().filter(open).count()
}
