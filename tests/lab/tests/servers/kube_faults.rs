//! The API server fails in every way that a test may need.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::WatchParams;
use trident_lab::kube::{Fault, User, Verb, WatchCut};
use trident_lab::tls::serve::RequestRecord;

use super::{Cluster, PATIENCE, refused};

const MOMENT: Duration = Duration::from_millis(300);

fn own() -> WatchParams {
    WatchParams::default().fields("metadata.name=node-1")
}

async fn hangs(nodes: &Api<Node>) -> bool {
    tokio::time::timeout(MOMENT, nodes.get("node-1")).await.is_err()
}

#[tokio::test]
async fn statuses_strike_as_often_and_where_they_are_told() {
    let cluster = Cluster::new();
    let nodes = cluster.nodes_of("node-1").await;
    cluster.api.inject(Fault::Status(500).times(2));
    cluster.api.inject(Fault::Status(403).on(Verb::Patch));
    assert_eq!(refused(nodes.get("node-1").await).0, 500);
    assert_eq!(refused(nodes.get_metadata("node-1").await).0, 500);
    nodes.get("node-1").await.unwrap();
    let patch = kube::api::Patch::Merge(serde_json::json!({}));
    assert_eq!(refused(nodes.patch("node-1", &Default::default(), &patch).await).0, 403);
    cluster.api.clear_faults();
    nodes.patch("node-1", &Default::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn too_many_requests_say_when_to_come_back() {
    let cluster = Cluster::new();
    let nodes = cluster.nodes_of("node-1").await;
    cluster.api.inject(Fault::TooManyRequests { retry_after: Duration::from_secs(1) }.times(1));
    let start = Instant::now();
    match nodes.get("node-1").await {
        // A client may wait and retry by itself.
        Ok(_) => assert!(start.elapsed() >= Duration::from_secs(1)),
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.details.unwrap().retry_after_seconds, 1);
        }
        Err(other) => panic!("{other:?}"),
    }
    assert_eq!(cluster.api.requests()[0].status, Some(429));
}

#[tokio::test]
async fn refusing_cuts_old_and_new_connections() {
    let cluster = Cluster::new();
    let nodes = cluster.nodes_of("node-1").await;
    let mut watch = Box::pin(nodes.watch(&own(), "0").await.unwrap());
    watch.next().await.unwrap().unwrap();
    cluster.api.inject(Fault::Refuse);
    let end = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap();
    assert!(end.is_none_or(|event| event.is_err()));
    assert!(nodes.get("node-1").await.is_err());
    assert!(cluster.api.connections().refused > 0);
    cluster.api.clear_faults();
    nodes.get("node-1").await.unwrap();
}

#[tokio::test]
async fn a_hanging_request_is_seen_and_never_answered() {
    let cluster = Cluster::new();
    let nodes = cluster.nodes_of("node-1").await;
    cluster.api.inject(Fault::Hang.on(Verb::Get));
    assert!(hangs(&nodes).await);
    assert_eq!(cluster.api.requests()[0].status, None);
    cluster.api.clear_faults();
    nodes.get("node-1").await.unwrap();
}

#[tokio::test]
async fn silent_connections_stay_silent_and_new_ones_work_again() {
    let cluster = Cluster::new();
    let nodes = cluster.nodes_of("node-1").await;
    let mut watch = Box::pin(nodes.watch(&own(), "0").await.unwrap());
    watch.next().await.unwrap().unwrap();
    cluster.api.inject(Fault::DropSilently);
    cluster.api.annotate("node-1", "example.com/a", Some("1"));
    assert!(tokio::time::timeout(MOMENT, watch.next()).await.is_err());
    assert!(hangs(&nodes).await);
    cluster.api.clear_faults();
    let fresh = cluster.nodes_of("node-1").await;
    fresh.get("node-1").await.unwrap();
    cluster.api.touch("node-1");
    assert!(tokio::time::timeout(MOMENT, watch.next()).await.is_err());
}

#[tokio::test]
async fn a_verb_can_be_dropped_silently_on_its_own() {
    let cluster = Cluster::new();
    let nodes = cluster.nodes_of("node-1").await;
    cluster.api.inject(Fault::DropSilently.on(Verb::Watch));
    assert!(tokio::time::timeout(MOMENT, nodes.watch(&own(), "0")).await.is_err());
    nodes.get("node-1").await.unwrap();
}

/// What a raw client reads of a watch, and whether it ended properly.
async fn read_to_end(mut watch: reqwest::Response) -> (Vec<u8>, bool) {
    let mut read = vec![];
    loop {
        match tokio::time::timeout(PATIENCE, watch.chunk()).await.unwrap() {
            Ok(Some(chunk)) => read.extend(chunk),
            Ok(None) => return (read, true),
            Err(_broken) => return (read, false),
        }
    }
}

#[tokio::test]
async fn watches_are_cut_in_three_ways() {
    let cluster = Cluster::new();
    cluster.api.set_token("t", Some(User::admin("raw")));
    let ca = reqwest::Certificate::from_pem(cluster.pki.ca_pem().as_bytes()).unwrap();
    let http = reqwest::Client::builder().tls_certs_only([ca]).build().unwrap();
    let url =
        format!("{}/api/v1/nodes?watch=true&fieldSelector=metadata.name%3Dnode-1", cluster.url);
    for cut in [WatchCut::Clean, WatchCut::Abrupt, WatchCut::MidLine] {
        let watch = http.get(&url).bearer_auth("t").send().await.unwrap();
        cluster.api.wait_for_watches(1, PATIENCE).await.unwrap();
        cluster.api.cut_watches(cut);
        let (read, proper) = read_to_end(watch).await;
        assert_eq!(proper, cut == WatchCut::Clean, "{cut:?}");
        assert_eq!(read.ends_with(b"\n"), cut != WatchCut::MidLine, "{cut:?}");
        let ended = |records: &[RequestRecord]| records.iter().all(|record| record.ended);
        cluster.api.wait_for_requests(PATIENCE, ended).await.unwrap();
    }
}

/// kube-rs takes each for the end of the stream and never shows half an event.
#[tokio::test]
async fn a_cut_watch_ends_for_kube() {
    for cut in [WatchCut::Clean, WatchCut::Abrupt, WatchCut::MidLine] {
        let cluster = Cluster::new();
        let nodes = cluster.nodes_of("node-1").await;
        let mut watch = Box::pin(nodes.watch(&own(), "0").await.unwrap());
        watch.next().await.unwrap().unwrap();
        cluster.api.cut_watches(cut);
        let end = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap();
        assert!(end.is_none(), "{cut:?}: {end:?}");
    }
}

#[tokio::test]
async fn one_server_serves_several_listeners() {
    let cluster = Cluster::new();
    let second = cluster.api.serve(super::listener()).unwrap();
    let elsewhere = Cluster { url: format!("https://{}", second.addr), ..cluster };
    elsewhere.nodes_of("node-1").await.get("node-1").await.unwrap();
    second.close();
    assert!(elsewhere.nodes_of("node-1").await.get("node-1").await.is_err());
}
