use std::sync::Arc;
use std::time::Duration;

use http::Request;
use kube::Client;
use kube::api::{GetParams, ListParams, Patch, PatchParams, WatchParams};
use kube::core::request;
use serde::de::DeserializeOwned;

use super::access::Access;
use super::machine::Machine;
use super::node::{List, Node, Object};
use super::wire::{self, Lines};
use super::{KubeError, Seen, Watch};
use crate::config::{Config, Kubernetes};
use crate::contract::{AGENT_VERSION, Keys};
use crate::steps::{self, Step};

const NODES: &str = "/api/v1/nodes";
const CONNECT: Duration = Duration::from_secs(10);
const FIELD_MANAGER: &str = "trident-acl-agent";

/// A client with the credentials that the kubeconfig named when it was made. Clones share it.
#[derive(Clone)]
pub struct NodeApi(Arc<Inner>);

struct Inner {
    client: Client,
    name: String,
    keys: Keys,
    machine: Machine,
    settings: Kubernetes,
    fingerprint: u64,
}

impl std::fmt::Debug for NodeApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeApi").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl NodeApi {
    /// Reads the kubeconfig and the files that it names; connects when it is first used.
    /// `machine`: this machine's UUID, if there is one to compare with.
    ///
    /// # Errors
    /// [`KubeError::Access`], [`KubeError::Client`].
    pub fn new(config: &Config, name: &str, machine: Option<String>) -> Result<Self, KubeError> {
        let settings = &config.kubernetes;
        let access = read(settings)?;
        access.warn();
        let machine = match settings.validate_node_uuid {
            true => Machine::checked(machine),
            false => Machine::default(),
        };
        Ok(Self(Arc::new(Inner {
            fingerprint: access.fingerprint,
            client: client(access)?,
            name: name.to_owned(),
            keys: config.keys.clone(),
            machine,
            settings: settings.clone(),
        })))
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether the kubeconfig, or a file that it names, is another by now. One that cannot be read now is
    /// being replaced.
    pub fn is_outdated(&self) -> bool {
        read(&self.0.settings).is_ok_and(|now| now.fingerprint != self.0.fingerprint)
    }

    /// One read of the Node.
    ///
    /// # Errors
    /// [`KubeError`]; a 404 is [`Seen::Gone`].
    pub async fn get(&self) -> Result<Seen, KubeError> {
        let (api, parameters) = (request::Request::new(NODES), GetParams::default());
        let request = match self.0.machine.is_checked() {
            true => api.get(self.name(), &parameters),
            false => api.get_metadata(self.name(), &parameters),
        };
        let read = self.fetch_node("reading the Node", request);
        steps::awaited(Step::NodeRead, "", read).await
    }

    /// What the Node is, from now on.
    pub fn watch(&self) -> Watch {
        Watch::new(self.clone())
    }

    /// Writes one annotation and nothing else, on this very Node.
    ///
    /// # Errors
    /// [`KubeError`]; a 404 is [`Seen::Gone`]; [`KubeError::is_other_node`] if it is another by now.
    pub async fn annotate(&self, node: &Node, key: &str, value: &str) -> Result<Seen, KubeError> {
        let patch = Patch::Merge(serde_json::json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "uid": node.uid, "annotations": { key: value } },
        }));
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..Default::default() };
        let api = request::Request::new(NODES);
        let request = match self.0.machine.is_checked() {
            true => api.patch(self.name(), &parameters, &patch),
            false => api.patch_metadata(self.name(), &parameters, &patch),
        };
        let written = self.fetch_node("writing the status", request);
        steps::awaited(Step::StatusWrite, key, written).await
    }

    async fn fetch_node(&self, what: &'static str, request: Built) -> Result<Seen, KubeError> {
        match self.fetch::<Object>(what, request).await {
            Ok(node) if node.metadata.name == self.name() => Ok(self.see(node)),
            Ok(_) => Err(KubeError::other_object(what)),
            Err(error) if error.is_no_node() => Ok(Seen::Gone),
            Err(error) => Err(error),
        }
    }

    pub(super) fn see(&self, node: Object) -> Seen {
        self.0.machine.see(node, &self.0.keys)
    }

    /// The collection narrowed to the Node.
    pub(super) async fn list(&self, what: &'static str) -> Result<List, KubeError> {
        let (api, parameters) =
            (request::Request::new(NODES), ListParams::default().fields(&self.only()));
        let request = match self.0.machine.is_checked() {
            true => api.list(&parameters),
            false => api.list_metadata(&parameters),
        };
        let list: List = steps::awaited(Step::NodeList, "", self.fetch(what, request)).await?;
        if list.kind.ends_with("List") { Ok(list) } else { Err(KubeError::other_object(what)) }
    }

    /// The events after this version, for so long.
    pub(super) async fn events(
        &self,
        what: &'static str,
        version: &str,
        seconds: u32,
    ) -> Result<Lines, KubeError> {
        let parameters = WatchParams::default().fields(&self.only()).timeout(seconds);
        let api = request::Request::new(NODES);
        let request = match self.0.machine.is_checked() {
            true => api.watch(&parameters, version),
            false => api.watch_metadata(&parameters, version),
        };
        let request = request.map_err(|source| KubeError::Request { what, source })?;
        let begun = wire::stream(&self.0.client, what, request);
        steps::awaited(Step::NodeWatch, "", begun).await
    }

    /// A kubelet's credential may list and watch with this selector alone.
    fn only(&self) -> String {
        format!("metadata.name={}", self.name())
    }

    async fn fetch<T: DeserializeOwned>(
        &self,
        what: &'static str,
        request: Built,
    ) -> Result<T, KubeError> {
        let request = request.map_err(|source| KubeError::Request { what, source })?;
        let body = wire::fetch(&self.0.client, what, request).await?;
        serde_json::from_slice(&body).map_err(|source| KubeError::NoAnswer { what, source })
    }
}

type Built = Result<Request<Vec<u8>>, request::Error>;

fn read(settings: &Kubernetes) -> Result<Access, KubeError> {
    Access::read(settings).map_err(|source| KubeError::Access {
        path: settings.kubeconfig.display().to_string(),
        source,
    })
}

fn client(access: Access) -> Result<Client, KubeError> {
    let mut config = access.config;
    config.connect_timeout = Some(CONNECT);
    // Each request has a deadline of its own, and a watch one for its whole time.
    config.read_timeout = None;
    config.write_timeout = None;
    // Waiting is the caller's business: it knows what else there is to do.
    config.default_retry = false;
    let agent = format!("trident-acl-agent/{AGENT_VERSION}").parse();
    config.headers.extend(agent.ok().map(|agent| (http::header::USER_AGENT, agent)));
    Client::try_from(config).map_err(|source| KubeError::Client { source })
}
