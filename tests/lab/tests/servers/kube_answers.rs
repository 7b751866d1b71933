//! One table of requests and answers, held against the stand-in here and against the real API server by
//! `make test-real`: so the stand-in cannot come to agree with its author alone.
//!
//! Expected of the server: `node-1` and `node-2` are there, `node-3` is not, and versions from before now are
//! forgotten.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use http::{Method, Request, Response};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use trident_lab::tls::{Credential, Login, Pem, Pki, kubeconfig};

const NODE: &str = "/api/v1/nodes/node-1";
const MERGE: &str = "application/merge-patch+json";
/// Far above what anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Kubelet,
    Admin,
    Expired,
    Foreign,
    BadToken,
    Nobody,
}

use Who::{Admin, BadToken, Expired, Foreign, Kubelet, Nobody};

/// A server of this PKI, at this address.
pub(crate) struct Server<'a> {
    pub(crate) url: &'a str,
    pub(crate) pki: &'a Pki,
}

impl Server<'_> {
    async fn client(&self, who: Who) -> Result<Client> {
        let a_while_ago = SystemTime::now() - Duration::from_secs(3600);
        let name = "system:node:node-1";
        let credential = match who {
            Kubelet | BadToken | Nobody => self.pki.kubelet_cert("node-1"),
            Admin => self.pki.client_cert("admin", "system:masters"),
            Expired => self.pki.client_cert_expiring(name, "system:nodes", a_while_ago),
            Foreign => Pki::new().kubelet_cert("node-1"),
        };
        let Credential { cert_pem, key_pem } = &credential;
        let login = match who {
            BadToken => Login::Token("wrong"),
            _ => Login::Certificate { cert: Pem::Inline(cert_pem), key: Pem::Inline(key_pem) },
        };
        let text = kubeconfig(self.url, Pem::Inline(&self.pki.ca_pem()), login);
        let kubeconfig = Kubeconfig::from_yaml(&text)?;
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        if who == Nobody {
            config.auth_info = Default::default();
        }
        Ok(Client::try_from(config)?)
    }
}

/// A request, and what its answer must be.
struct Row {
    name: &'static str,
    who: Who,
    method: Method,
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
    code: u16,
    /// The object's kind, or a refusal's reason.
    word: &'static str,
    /// Part of a refusal's message.
    message: &'static str,
}

impl Row {
    fn get(name: &'static str, who: Who, path: impl Into<String>) -> Self {
        let (headers, body, path) = (vec![], String::new(), path.into());
        Self { name, who, method: Method::GET, path, headers, body, code: 0, word: "", message: "" }
    }

    fn patch(name: &'static str, path: &str, patch: Value) -> Self {
        let mut row = Self::get(name, Kubelet, path);
        (row.method, row.body) = (Method::PATCH, patch.to_string());
        row.headers.push(("content-type", MERGE));
        row
    }

    fn typed(mut self, media: &'static str) -> Self {
        self.headers = vec![("content-type", media)];
        self
    }

    fn accept(mut self, media: &'static str) -> Self {
        self.headers.push(("accept", media));
        self
    }

    fn is(mut self, code: u16, word: &'static str) -> Self {
        (self.code, self.word) = (code, word);
        self
    }

    fn says(mut self, message: &'static str) -> Self {
        self.message = message;
        self
    }

    fn request(&self) -> Result<Request<Body>> {
        let mut request = Request::builder().method(self.method.clone()).uri(&self.path);
        for (name, value) in &self.headers {
            request = request.header(*name, *value);
        }
        Ok(request.body(Body::from(self.body.clone().into_bytes()))?)
    }
}

fn annotations(values: Value) -> Value {
    json!({"metadata": {"annotations": values}})
}

/// Reading.
fn reads() -> Vec<Row> {
    let list = |query: &str| format!("/api/v1/nodes?{query}");
    let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let metadata_list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let own = "fieldSelector=metadata.name%3Dnode-1";
    let only = "node 'node-1' cannot read";
    vec![
        Row::get("its Node", Kubelet, NODE).is(200, "Node"),
        Row::get("its Node's metadata", Kubelet, NODE)
            .accept(metadata)
            .is(200, "PartialObjectMetadata"),
        Row::get("another Node", Kubelet, "/api/v1/nodes/node-2")
            .is(403, "Forbidden")
            .says("node 'node-1' cannot read 'node-2', only its own Node object"),
        Row::get("no Node", Admin, "/api/v1/nodes/node-3")
            .is(404, "NotFound")
            .says("nodes \"node-3\" not found"),
        Row::get("the list of its Node", Kubelet, list(own)).is(200, "NodeList"),
        Row::get("the list of its Node's metadata", Kubelet, list(own))
            .accept(metadata_list)
            .is(200, "PartialObjectMetadataList"),
        Row::get("the list of all", Kubelet, list("")).is(403, "Forbidden").says(only),
        Row::get("the list of another", Kubelet, list("fieldSelector=metadata.name%3Dnode-2"))
            .is(403, "Forbidden")
            .says(only),
        Row::get("a watch of all", Kubelet, list("watch=1")).is(403, "Forbidden").says(only),
        Row::get("by a field that is none", Admin, list("fieldSelector=spec.x%3Dy"))
            .is(400, "BadRequest")
            .says("field label not supported: spec.x"),
        Row::get("a list of a version that is none", Admin, list("resourceVersion=abc"))
            .is(400, "BadRequest"),
        Row::get("initial events of a list", Admin, list("sendInitialEvents=true"))
            .is(422, "Invalid")
            .says("sendInitialEvents is forbidden for list"),
        Row::get("a match without initial events", Admin, {
            list("watch=1&resourceVersion=1&resourceVersionMatch=NotOlderThan")
        })
        .is(422, "Invalid")
        .says("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),
        Row::get("initial events without a match", Admin, list("watch=1&sendInitialEvents=true"))
            .is(422, "Invalid")
            .says("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        Row::get("what is nowhere", Admin, "/apis/none.example/v1/things").is(404, ""),
    ]
}

/// Writing; nothing of it is stored but where it is allowed.
fn writes() -> Vec<Row> {
    let other = "/api/v1/nodes/node-2";
    let value = || annotations(json!({"example.com/a": "1"}));
    let label = json!({"metadata": {"labels": {"node-restriction.kubernetes.io/x": "1"}}});
    let taint = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    let stale = json!({"metadata": {"resourceVersion": "1"}});
    let uid = json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}});
    let renamed = json!({"metadata": {"name": "node-2"}});
    let full = "x".repeat(256 * 1024);
    vec![
        Row::patch("an annotation", NODE, value()).is(200, "Node"),
        Row::patch("the same again", NODE, value()).is(200, "Node"),
        Row::patch("nothing", NODE, json!({})).is(200, "Node"),
        Row::patch("strategically", NODE, value())
            .typed("application/strategic-merge-patch+json")
            .is(200, "Node"),
        Row::patch("another's annotation", other, value())
            .is(403, "Forbidden")
            .says("node \"node-1\" is not allowed to modify node \"node-2\""),
        Row::patch("the annotation of none", "/api/v1/nodes/node-3", value()).is(404, "NotFound"),
        Row::patch("more than fits", NODE, annotations(json!({"example.com/a": full})))
            .is(422, "Invalid")
            .says("metadata.annotations: Too long: may not be more than 262144 bytes"),
        Row::patch("a key with a blank", NODE, annotations(json!({"example.com/ a": "x"})))
            .is(422, "Invalid")
            .says("metadata.annotations: Invalid value: \"example.com/ a\": name part must consist of"),
        Row::patch("a number", NODE, annotations(json!({"example.com/a": 7})))
            .is(422, "Invalid")
            .says("cannot unmarshal number into Go struct field"),
        Row::patch("a restricted label", NODE, label)
            .is(403, "Forbidden")
            .says("is not allowed to modify labels: node-restriction.kubernetes.io/x"),
        Row::patch("a taint", NODE, taint)
            .is(403, "Forbidden")
            .says("node \"node-1\" is not allowed to modify taints"),
        Row::patch("an old version", NODE, stale)
            .is(409, "Conflict")
            .says("the object has been modified; please apply your changes to the latest version"),
        Row::patch("another's uid", NODE, uid)
            .is(422, "Invalid")
            .says("metadata.uid: Invalid value"),
        Row::patch("another's name", NODE, renamed).is(400, "BadRequest"),
        Row::patch("no object", NODE, json!([])).is(400, "BadRequest"),
        Row::patch("of no known type", NODE, value())
            .typed("application/json")
            .is(415, "UnsupportedMediaType")
            .says("415: Unsupported Media Type"),
    ]
}

/// Logging in.
fn logins() -> Vec<Row> {
    vec![
        Row::get("a certificate that has ended", Expired, NODE).is(401, "Unauthorized"),
        Row::get("a certificate of another CA", Foreign, NODE).is(401, "Unauthorized"),
        Row::get("a token that is none", BadToken, NODE).is(401, "Unauthorized"),
        Row::get("nothing", Nobody, NODE)
            .is(403, "Forbidden")
            .says("User \"system:anonymous\" cannot get resource \"nodes\""),
        Row::get("an administrator", Admin, "/api/v1/nodes").is(200, "NodeList"),
        Row::get("anybody, of the version", Nobody, "/version").is(200, ""),
        Row::get("anybody, of the health", Nobody, "/readyz").is(200, ""),
    ]
}

/// Each difference from the table, one a line.
pub(crate) async fn differences(server: &Server<'_>) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for row in reads().into_iter().chain(writes()).chain(logins()) {
        let client = server.client(row.who).await?;
        let answer = tokio::time::timeout(PATIENCE, client.send(row.request()?));
        let (code, text) = whole(answer.await.context(row.name)??).await?;
        let object: Value = serde_json::from_str(&text).unwrap_or_default();
        let key = if object["kind"] == "Status" { "reason" } else { "kind" };
        let word = object[key].as_str().unwrap_or_default();
        let said = object["message"].as_str().unwrap_or_default();
        if code != row.code
            || word != row.word && !row.word.is_empty()
            || !said.contains(row.message)
        {
            let said: String = said.chars().take(400).collect();
            found.push(format!("{}: {code} {word}: {said}", row.name));
        }
    }
    found.extend(watches(server).await?);
    Ok(found)
}

async fn whole(answer: Response<Body>) -> Result<(u16, String)> {
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect_bytes().await?;
    Ok((code, String::from_utf8_lossy(&bytes).into_owned()))
}

/// A watch's events, until it ends after a second.
async fn events(client: &Client, query: &str) -> Result<Vec<Value>> {
    let path = format!(
        "/api/v1/nodes?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dnode-1&{query}"
    );
    let request = Request::builder().uri(path).body(Body::empty())?;
    let answer = tokio::time::timeout(PATIENCE, client.send(request)).await??;
    ensure!(answer.status() == 200, "{query}: {}", answer.status());
    let (_, text) = whole(answer).await?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Watches of one Node, each with its events.
async fn watches(server: &Server<'_>) -> Result<Vec<String>> {
    let client = server.client(Kubelet).await?;
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1";
    let mut found = Vec::new();
    for (name, query, wanted) in [
        ("from nowhere", "", &["ADDED node-1"][..]),
        ("from any version", "resourceVersion=0", &["ADDED node-1"]),
        ("with what is there", initial, &["ADDED node-1", "BOOKMARK true"]),
        ("from a version that is forgotten", "resourceVersion=1", &["ERROR 410 Expired"]),
    ] {
        let seen: Vec<_> = events(&client, query).await?.iter().map(told).collect();
        if seen != wanted {
            found.push(format!("a watch {name}: {seen:?}"));
        }
    }
    Ok(found)
}

fn told(event: &Value) -> String {
    let (kind, object) = (event["type"].as_str().unwrap_or_default(), &event["object"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match kind {
        "ERROR" => format!("{kind} {} {}", object["code"], text(&object["reason"])),
        "BOOKMARK" => {
            format!(
                "{kind} {}",
                text(&object["metadata"]["annotations"]["k8s.io/initial-events-end"])
            )
        }
        _ => format!("{kind} {}", text(&object["metadata"]["name"])),
    }
}
