//! The HTTP stand-ins behave at the wire as the servers that they stand for.

#[path = "servers/http2.rs"]
mod http2;
#[path = "servers/kube_answers.rs"]
mod kube_answers;
#[path = "servers/kube_faults.rs"]
mod kube_faults;
#[path = "servers/kube_rules.rs"]
mod kube_rules;
#[path = "servers/kube_watch.rs"]
mod kube_watch;
#[path = "servers/nebraska_shapes.rs"]
mod nebraska_shapes;
#[path = "servers/nebraska_states.rs"]
mod nebraska_states;
#[path = "servers/real_programs.rs"]
mod real_programs;

use std::net::TcpListener;
use std::sync::Once;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use trident_lab::kube::KubeApi;
use trident_lab::nebraska::Nebraska;
use trident_lab::tls::{Credential, Login, Pem, Pki, kubeconfig};

/// Far above what anything here takes.
const PATIENCE: Duration = Duration::from_secs(10);

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn use_ring() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| rustls::crypto::ring::default_provider().install_default().unwrap());
}

/// A served API with `node-1` and `node-2`.
struct Cluster {
    pki: Pki,
    api: KubeApi,
    url: String,
}

impl Cluster {
    fn new() -> Self {
        use_ring();
        let pki = Pki::new();
        let api = KubeApi::new(&pki);
        api.add_node("node-1");
        api.add_node("node-2");
        let listening = api.serve(listener()).unwrap();
        Self { pki, api, url: format!("https://{}", listening.addr) }
    }

    fn kubeconfig(&self, credential: &Credential) -> String {
        let login = Login::Certificate {
            cert: Pem::Inline(&credential.cert_pem),
            key: Pem::Inline(&credential.key_pem),
        };
        kubeconfig(&self.url, Pem::Inline(&self.pki.ca_pem()), login)
    }

    async fn nodes_as(&self, credential: &Credential) -> Api<Node> {
        nodes(&self.kubeconfig(credential)).await
    }

    /// The Nodes as the kubelet of `node` sees them.
    async fn nodes_of(&self, node: &str) -> Api<Node> {
        self.nodes_as(&self.pki.kubelet_cert(node)).await
    }
}

async fn nodes(kubeconfig: &str) -> Api<Node> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Api::all(Client::try_from(config).unwrap())
}

/// The HTTP status that a call was refused with.
fn refused<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String, String) {
    match result.unwrap_err() {
        kube::Error::Api(status) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("not a refusal: {other:?}"),
    }
}

/// A served Nebraska and a client for it.
struct Updates {
    nebraska: Nebraska,
    url: String,
    http: reqwest::Client,
}

impl Updates {
    fn new() -> Self {
        use_ring();
        let pki = Pki::new();
        let nebraska = Nebraska::new(&pki);
        let listening = nebraska.serve(listener()).unwrap();
        let ca = reqwest::Certificate::from_pem(pki.ca_pem().as_bytes()).unwrap();
        let http = reqwest::Client::builder().tls_certs_only([ca]).build().unwrap();
        Self { nebraska, url: format!("https://{}/v1/update", listening.addr), http }
    }

    fn request(&self, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        self.http.post(&self.url).body(body)
    }

    /// The answer to a body; every answer is 200.
    async fn post(&self, body: impl Into<reqwest::Body>) -> String {
        let answer = self.request(body).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.text().await.unwrap()
    }
}
