//! The door to Kubernetes, against an API server's stand-in, over real TLS.
//!
//! What takes minutes (waits, watches, rotation) is in `src/watch/tests`, where the clock is paused.

mod answers;
mod credentials;
mod names;
mod probe;
mod tunnel;

use std::ffi::OsString;
use std::net::TcpListener;
use std::sync::Once;

use anyhow::Result;
use trident_acl_agent::config::{Config, PREFIX};
use trident_acl_agent::kubernetes::{KubeError, NodeApi, Seen};
use trident_lab::kube::{KubeApi, Kubelet};
use trident_lab::tls::Pki;

const NODE: &str = "node-1";

/// A served API with `node-1`, and what its kubelet left.
struct Cluster {
    pki: Pki,
    api: KubeApi,
    url: String,
    kubelet: Kubelet,
}

impl Cluster {
    fn new() -> Result<Self> {
        Self::on("127.0.0.1:0")
    }

    fn on(address: &str) -> Result<Self> {
        static RING: Once = Once::new();
        RING.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let pki = Pki::new();
        let api = KubeApi::new(&pki);
        api.add_node(NODE);
        let url = format!("https://{}", api.serve(TcpListener::bind(address)?)?.addr);
        let kubelet = Kubelet::new(&pki, &url, NODE)?;
        Ok(Self { pki, api, url, kubelet })
    }

    fn config(&self, settings: &[(&str, &str)]) -> Result<Config> {
        let kubeconfig = self.kubelet.kubeconfig().display().to_string();
        let here = [("KUBERNETES_KUBECONFIG", kubeconfig.as_str())];
        let all = here.iter().chain(settings);
        let all =
            all.map(|(name, value)| (OsString::from(format!("{PREFIX}{name}")), value.into()));
        Ok(Config::load(all)?.config)
    }

    fn door(&self, settings: &[(&str, &str)]) -> Result<NodeApi, KubeError> {
        NodeApi::new(&self.config(settings).expect("good settings"), NODE, None)
    }

    /// One read by way of the kubeconfig as it is.
    async fn read(&self) -> Result<Seen, KubeError> {
        self.door(&[])?.get().await
    }
}
