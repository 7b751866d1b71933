//! Who may do what, and what a PATCH may hold.

use std::time::{Duration, SystemTime};

use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use trident_lab::kube::{Author, User};
use trident_lab::tls::{Login, Pem, kubeconfig};

use super::{Cluster, PATIENCE, kube_answers, nodes, refused};

fn annotations(values: Value) -> Patch<Value> {
    Patch::Merge(json!({"metadata": {"annotations": values}}))
}

/// The real server is held to the same table by `make test-real`.
#[tokio::test]
async fn each_answer_is_the_real_servers() {
    let cluster = Cluster::new();
    cluster.api.compact(trident_lab::kube::GoneAs::Event);
    let server = kube_answers::Server { url: &cluster.url, pki: &cluster.pki };
    let differences = kube_answers::differences(&server).await.unwrap();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[tokio::test]
async fn metadata_requests_get_metadata_and_the_whole_node_is_large() {
    let cluster = Cluster::new();
    cluster.api.set_system_uuid("node-1", "my-uuid");
    let nodes = cluster.nodes_of("node-1").await;
    let node = nodes.get("node-1").await.unwrap();
    let meta = nodes.get_metadata("node-1").await.unwrap();
    assert_eq!(node.status.unwrap().node_info.unwrap().system_uuid, "my-uuid");
    assert_eq!(meta.types.unwrap().kind, "PartialObjectMetadata");
    assert_eq!(meta.metadata.uid, node.metadata.uid);
    let records = cluster.api.requests();
    assert!(records[0].bytes > 5000, "{}", records[0].bytes);
    assert!(records[1].bytes < 2500, "{}", records[1].bytes);
    assert_eq!(records[0].client_cn.as_deref(), Some("system:node:node-1"));
    let list = nodes.list_metadata(&ListParams::default().fields("metadata.name=node-1")).await;
    assert_eq!(list.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_patch_merges_and_leaves_the_rest_alone() {
    let cluster = Cluster::new();
    let nodes = cluster.nodes_of("node-1").await;
    cluster.api.annotate("node-1", "example.com/a", Some("1"));
    let before = cluster.api.node("node-1").unwrap();
    let patch = annotations(json!({"example.com/a": null, "example.com/b": "2"}));
    let answer = nodes.patch_metadata("node-1", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(cluster.api.annotation("node-1", "example.com/a"), None);
    assert_eq!(cluster.api.annotation("node-1", "example.com/b").as_deref(), Some("2"));
    assert_ne!(
        answer.metadata.resource_version.as_deref(),
        before["metadata"]["resourceVersion"].as_str()
    );
    assert_eq!(cluster.api.node("node-1").unwrap()["status"], before["status"]);
    let history = cluster.api.history("node-1");
    let last = history.last().unwrap();
    assert_eq!((last.key.as_str(), last.value.as_deref()), ("example.com/b", Some("2")));
    assert_eq!(last.by, Author::Client("system:node:node-1".to_owned()));
    assert_eq!(history[0].by, Author::Test);
    assert_eq!(history.len(), 3);
}

#[tokio::test]
async fn a_patch_that_changes_nothing_keeps_the_resource_version() {
    let cluster = Cluster::new();
    let nodes = cluster.nodes_of("node-1").await;
    let patch = annotations(json!({"example.com/a": "1"}));
    let first = nodes.patch("node-1", &PatchParams::default(), &patch).await.unwrap();
    let second = nodes.patch("node-1", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(first.metadata.resource_version, second.metadata.resource_version);
    assert_eq!(cluster.api.history("node-1").len(), 1);
}

#[tokio::test]
async fn a_status_against_the_contract_fails_whoever_drops_the_server() {
    let cluster = Cluster::new();
    let nodes = cluster.nodes_of("node-1").await;
    assert!(cluster.api.check_statuses().is_ok());
    let patch = annotations(json!({"acl.example.com/update-status": "{\"code\":\"Success\"}"}));
    nodes.patch("node-1", &PatchParams::default(), &patch).await.unwrap();
    assert!(cluster.api.check_statuses().is_err());
    let clone = cluster.api.clone();
    drop(cluster);
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(clone)));
    let said = *dropped.unwrap_err().downcast::<String>().unwrap();
    assert!(said.contains("breaks its schema"), "{said}");
}

#[tokio::test]
async fn bad_patches_are_refused() {
    let cluster = Cluster::new();
    let nodes = cluster.nodes_of("node-1").await;
    let restricted = json!({"metadata": {"labels": {"node-restriction.kubernetes.io/x": "1"}}});
    let tainted = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    let stale = json!({"metadata": {"resourceVersion": "1"}});
    let other = json!({"metadata": {"uid": "another"}});
    let cases = [
        (annotations(json!({"example.com/a": "x".repeat(256 * 1024)})), 422, "Invalid"),
        (annotations(json!({"example.com/ a": "x"})), 422, "Invalid"),
        (annotations(json!({"example.com/a": 7})), 422, "Invalid"),
        (Patch::Merge(restricted), 403, "Forbidden"),
        (Patch::Merge(tainted), 403, "Forbidden"),
        (Patch::Merge(stale), 409, "Conflict"),
        (Patch::Merge(other), 422, "Invalid"),
        (Patch::Apply(json!({"kind": "Node"})), 415, "UnsupportedMediaType"),
    ];
    for (patch, code, reason) in cases {
        let params = PatchParams { field_manager: Some("test".to_owned()), ..Default::default() };
        let answer = refused(nodes.patch("node-1", &params, &patch).await);
        assert_eq!((answer.0, answer.1.as_str()), (code, reason), "{}", answer.2);
    }
    assert!(cluster.api.history("node-1").is_empty());
}

#[tokio::test]
async fn a_kubelet_reaches_its_own_node_only() {
    let cluster = Cluster::new();
    let nodes = cluster.nodes_of("node-1").await;
    let own = ListParams::default().fields("metadata.name=node-1");
    let other = ListParams::default().fields("metadata.name=node-2");
    let patch = annotations(json!({"example.com/a": "1"}));
    nodes.list(&own).await.unwrap();
    let refusals = [
        refused(nodes.get("node-2").await),
        refused(nodes.list(&other).await),
        refused(nodes.list(&ListParams::default()).await),
        refused(nodes.watch(&Default::default(), "0").await.map(drop)),
        refused(nodes.patch("node-2", &PatchParams::default(), &patch).await),
    ];
    for (code, reason, message) in refusals {
        assert_eq!((code, reason.as_str()), (403, "Forbidden"), "{message}");
    }
    let message = refused(nodes.get("node-2").await).2;
    assert!(message.contains("node 'node-1' cannot read 'node-2', only its own Node object"));
}

#[tokio::test]
async fn missing_nodes_and_resources_are_not_found() {
    let cluster = Cluster::new();
    let nodes = cluster.nodes_of("node-1").await;
    cluster.api.delete_node("node-1");
    assert_eq!(refused(nodes.get("node-1").await).0, 404);
    let patch = annotations(json!({"example.com/a": "1"}));
    assert_eq!(refused(nodes.patch("node-1", &PatchParams::default(), &patch).await).0, 404);
    cluster.api.add_node("node-1");
    nodes.get("node-1").await.unwrap();
    let client = nodes.into_client();
    client.apiserver_version().await.unwrap();
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(client, "default");
    assert_eq!(refused(pods.get("x").await).0, 404);
}

#[tokio::test]
async fn only_good_credentials_count() {
    let cluster = Cluster::new();
    let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
    let user = "system:node:node-1";
    let expired = cluster.pki.client_cert_expiring(user, "system:nodes", an_hour_ago);
    let foreign = trident_lab::tls::Pki::new().kubelet_cert("node-1");
    for credential in [expired, foreign] {
        let answer = refused(cluster.nodes_as(&credential).await.get("node-1").await);
        assert_eq!((answer.0, answer.1.as_str()), (401, "Unauthorized"));
    }
    let ca = cluster.pki.ca_pem();
    let by_token = |token| nodes_with_token(&cluster.url, &ca, token);
    assert_eq!(refused(by_token("secret").await.get("node-1").await).0, 401);
    cluster.api.set_token("secret", Some(User::admin("orchestrator")));
    let all = by_token("secret").await.list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 2);
    cluster.api.set_token("secret", Some(User { name: "nobody".to_owned(), groups: vec![] }));
    assert_eq!(refused(by_token("secret").await.get("node-1").await).0, 403);
}

async fn nodes_with_token(
    url: &str,
    ca: &str,
    token: &str,
) -> Api<k8s_openapi::api::core::v1::Node> {
    nodes(&kubeconfig(url, Pem::Inline(ca), Login::Token(token))).await
}

#[tokio::test]
async fn a_certificate_that_expires_under_a_connection_stops_counting() {
    let cluster = Cluster::new();
    let soon = SystemTime::now() + Duration::from_secs(2);
    let credential = cluster.pki.client_cert_expiring("system:node:node-1", "system:nodes", soon);
    let nodes = cluster.nodes_as(&credential).await;
    nodes.get("node-1").await.unwrap();
    let refusal = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Err(kube::Error::Api(status)) = nodes.get("node-1").await {
                return status.code;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    assert_eq!(refusal.await.unwrap(), 401);
}

#[tokio::test]
async fn no_value_is_missed_however_brief() {
    let cluster = Cluster::new();
    let (api, key) = (cluster.api.clone(), "example.com/status");
    let mut changes = api.subscribe();
    let writer = api.clone();
    let waiting = api.wait_for_annotation("node-1", key, PATIENCE, |v| v["n"] == 7);
    let (seen, ()) = tokio::join!(waiting, async {
        for n in 0..20 {
            writer.annotate("node-1", key, Some(&json!({"n": n}).to_string()));
        }
        writer.annotate("node-1", key, None);
    });
    assert_eq!(seen.unwrap(), json!({"n": 7}));
    let values: Vec<Value> = changes.drain().iter().map(|c| c.json()["n"].clone()).collect();
    assert_eq!(values.len(), 21);
    assert_eq!(values[19], 19);
    let missing = api.wait_for_annotation("node-1", key, Duration::from_millis(20), |_| true);
    assert!(missing.await.is_err());
}
