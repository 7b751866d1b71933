use std::time::Duration;

use futures_util::stream::{BoxStream, StreamExt};
use kube::api::{Api, Patch, PatchParams};
use kube::config::KubeConfigOptions;
use kube::runtime::watcher;
use kube::{Client, Config as ClientConfig};
use tokio::time::timeout;

use super::node::{Expected, Identified, Machine, Metadata, Observed};
use super::{KubeError, Seen, kubeconfig};
use crate::config::Kubernetes;
use crate::contract::AGENT_VERSION;
use crate::steps::{self, Step};

/// Of one get or patch, all in all.
const DEADLINE: Duration = Duration::from_secs(15);
const CONNECT: Duration = Duration::from_secs(10);
/// Below the 240 s after which a large cloud's load balancer drops an idle connection without a word.
const WATCH_SECONDS: u32 = 220;
/// A watch that is silent for longer was dropped: the server ends it by itself before.
const SILENCE: Duration = Duration::from_secs(235);
const FIELD_MANAGER: &str = "trident-acl-agent";

/// A client with the credentials that the kubeconfig named when it was made.
#[derive(Clone)]
pub struct NodeApi {
    client: Client,
    name: String,
    expected: Expected,
}

impl std::fmt::Debug for NodeApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeApi").field("name", &self.name).finish_non_exhaustive()
    }
}

impl NodeApi {
    /// Reads the kubeconfig and the files that it names; connects when it is first used.
    /// `machine`: this machine's UUID, if there is one to compare with.
    ///
    /// # Errors
    /// [`KubeError::Kubeconfig`], [`KubeError::Server`], [`KubeError::Client`].
    pub async fn new(
        settings: &Kubernetes,
        name: &str,
        machine: Option<String>,
    ) -> Result<Self, KubeError> {
        let client = Client::try_from(client_config(settings).await?)
            .map_err(|source| KubeError::Client { source })?;
        let expected = Expected(settings.validate_node_uuid.then_some(Machine(machine)));
        Ok(Self { client, name: name.to_owned(), expected })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// One read of the Node.
    ///
    /// # Errors
    /// [`KubeError`]; a 404 is [`Seen::Gone`].
    pub async fn get(&self) -> Result<Seen, KubeError> {
        match self.expected.0 {
            None => self.get_as::<Metadata>().await,
            Some(_) => self.get_as::<Identified>().await,
        }
    }

    async fn get_as<K: Observed>(&self) -> Result<Seen, KubeError> {
        let what = "reading the Node";
        let api: Api<K> = Api::all(self.client.clone());
        let read = timeout(DEADLINE, api.get_opt(&self.name));
        let node = steps::awaited(Step::NodeRead, "", read)
            .await
            .map_err(|_elapsed| KubeError::TimedOut { what, after: DEADLINE })?
            .map_err(|error| KubeError::of(what, error))?;
        Ok(node.map_or(Seen::Gone, |node| self.expected.see(&node)))
    }

    /// What the Node is, from now on. After an error the stream goes on when it is polled again: wait first.
    pub fn watch(&self) -> BoxStream<'static, Result<Seen, KubeError>> {
        match self.expected.0 {
            None => self.watch_as::<Metadata>(),
            Some(_) => self.watch_as::<Identified>(),
        }
    }

    fn watch_as<K: Observed>(&self) -> BoxStream<'static, Result<Seen, KubeError>> {
        let api: Api<K> = Api::all(self.client.clone());
        let config = watcher::Config::default()
            .fields(&format!("metadata.name={}", self.name))
            .timeout(WATCH_SECONDS);
        let expected = self.expected.clone();
        let mut listed = false;
        watcher::watcher(api, config)
            .filter_map(move |event| {
                let seen = || match event {
                    Ok(event) => seen(&event, &expected, &mut listed).map(Ok),
                    Err(error) => Some(Err(KubeError::of_watch("watching the Node", error))),
                };
                std::future::ready(steps::done(Step::NodeSeen, "", seen))
            })
            .boxed()
    }

    /// Writes one annotation and nothing else.
    ///
    /// # Errors
    /// [`KubeError`]; a 404 is [`Seen::Gone`].
    pub async fn annotate(&self, key: &str, value: &str) -> Result<Seen, KubeError> {
        let what = "writing the status";
        let api: Api<Metadata> = Api::all(self.client.clone());
        let patch = Patch::Merge(serde_json::json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "annotations": { key: value } },
        }));
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..Default::default() };
        let written = timeout(DEADLINE, api.patch(&self.name, &parameters, &patch));
        let patched = steps::awaited(Step::StatusWrite, key, written)
            .await
            .map_err(|_elapsed| KubeError::TimedOut { what, after: DEADLINE })?;
        match patched {
            Ok(node) => Ok(Expected(None).see(&node)),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Seen::Gone),
            Err(error) => Err(KubeError::of(what, error)),
        }
    }
}

/// `None`: nothing new. `listed` remembers whether a listing held the Node.
fn seen<K: Observed>(
    event: &watcher::Event<K>,
    expected: &Expected,
    listed: &mut bool,
) -> Option<Seen> {
    match event {
        watcher::Event::Init => {
            *listed = false;
            None
        }
        watcher::Event::InitApply(node) | watcher::Event::Apply(node) => {
            *listed = true;
            Some(expected.see(node))
        }
        watcher::Event::InitDone if *listed => None,
        watcher::Event::InitDone | watcher::Event::Delete(_) => Some(Seen::Gone),
    }
}

async fn client_config(settings: &Kubernetes) -> Result<ClientConfig, KubeError> {
    let path = settings.kubeconfig.display().to_string();
    let failed = |source| KubeError::Kubeconfig { path: path.clone(), source };
    let kubeconfig = kubeconfig::read(&settings.kubeconfig).map_err(failed)?;
    let options = KubeConfigOptions::default();
    let mut config =
        ClientConfig::from_custom_kubeconfig(kubeconfig, &options).await.map_err(failed)?;
    if let Some(server) = &settings.api_server {
        config.cluster_url =
            server.as_str().parse().map_err(|source| KubeError::Server { source })?;
    }
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    // Waiting is the caller's business: it knows what else there is to do.
    config.default_retry = false;
    let agent = format!("trident-acl-agent/{AGENT_VERSION}").parse();
    config.headers.extend(agent.ok().map(|agent| (http::header::USER_AGENT, agent)));
    Ok(config)
}
