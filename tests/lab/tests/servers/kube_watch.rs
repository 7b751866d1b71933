//! Watches through kube-rs: both list strategies, bookmarks, 410.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::core::ResourceExt;
use kube::runtime::watcher::{self, Event, watcher};
use trident_lab::kube::{Fault, GoneAs, Verb};

use super::{Cluster, PATIENCE, refused};

fn config() -> watcher::Config {
    watcher::Config::default().fields("metadata.name=node-1")
}

async fn next<T, S: Stream<Item = T> + Unpin>(stream: &mut S) -> T {
    tokio::time::timeout(PATIENCE, stream.next()).await.expect("no event").expect("ended")
}

/// Waits for the next object that is applied after the initial list.
async fn applied<K: Debug>(
    stream: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
) -> K {
    loop {
        if let Ok(Event::Apply(object)) = next(stream).await {
            return object;
        }
    }
}

async fn initial<K: Debug>(
    stream: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
) -> Vec<K> {
    let mut objects = vec![];
    loop {
        match next(stream).await {
            Ok(Event::InitApply(object)) => objects.push(object),
            Ok(Event::InitDone) => return objects,
            Ok(Event::Init) | Err(_) => objects.clear(),
            Ok(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn both_list_strategies_see_every_change() {
    for config in [config(), config().streaming_lists()] {
        let cluster = Cluster::new();
        let mut events = Box::pin(watcher(cluster.nodes_of("node-1").await, config));
        assert_eq!(initial(&mut events).await.len(), 1);
        cluster.api.annotate("node-2", "example.com/a", Some("not for us"));
        cluster.api.annotate("node-1", "example.com/a", Some("1"));
        let node = applied(&mut events).await;
        assert_eq!(node.annotations()["example.com/a"], "1");
        cluster.api.touch("node-1");
        assert_eq!(applied(&mut events).await.name_any(), "node-1");
        let old = cluster.api.node("node-1").unwrap();
        cluster.api.recreate_node("node-1");
        assert!(matches!(next(&mut events).await, Ok(Event::Delete(_))));
        let new = applied(&mut events).await;
        assert_ne!(new.uid().as_deref(), old["metadata"]["uid"].as_str());
    }
}

#[tokio::test]
async fn a_metadata_watcher_gets_metadata_only() {
    for config in [config(), config().streaming_lists()] {
        let cluster = Cluster::new();
        let client = cluster.nodes_of("node-1").await.into_client();
        let nodes: Api<PartialObjectMeta<Node>> = Api::all(client);
        let mut events = Box::pin(watcher(nodes, config));
        assert_eq!(initial(&mut events).await[0].name_any(), "node-1");
        cluster.api.annotate("node-1", "example.com/a", Some("1"));
        let meta = applied(&mut events).await;
        assert_eq!(meta.annotations()["example.com/a"], "1");
        assert_eq!(meta.types.unwrap().kind, "PartialObjectMetadata");
        for record in cluster.api.requests() {
            assert!(record.accept.unwrap().contains("as=PartialObjectMetadata"));
            assert!(record.bytes < 6000, "{} {}", record.query, record.bytes);
        }
    }
}

#[tokio::test]
async fn what_happened_between_list_and_watch_is_delivered() {
    let cluster = Cluster::new();
    let nodes = cluster.nodes_of("node-1").await;
    let version = nodes.get("node-1").await.unwrap().resource_version().unwrap();
    cluster.api.annotate("node-1", "example.com/a", Some("1"));
    cluster.api.annotate("node-1", "example.com/a", Some("2"));
    let params = WatchParams::default().fields("metadata.name=node-1");
    let mut events = Box::pin(nodes.watch(&params, &version).await.unwrap());
    for value in ["1", "2"] {
        match next(&mut events).await.unwrap() {
            WatchEvent::Modified(node) => assert_eq!(node.annotations()["example.com/a"], value),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_watch_ends_after_its_time_and_is_bookmarked_until_then() {
    let cluster = Cluster::new();
    cluster.api.set_bookmark_interval(Duration::from_millis(100));
    let nodes = cluster.nodes_of("node-1").await;
    let params = WatchParams::default().fields("metadata.name=node-1").timeout(1);
    let events = nodes.watch(&params, "0").await.unwrap();
    let events: Vec<_> =
        tokio::time::timeout(PATIENCE, events.try_collect()).await.unwrap().unwrap();
    assert!(matches!(events[0], WatchEvent::Added(_)));
    assert!(events.len() > 3);
    assert!(events[1..].iter().all(|event| matches!(event, WatchEvent::Bookmark(_))));
}

#[tokio::test]
async fn compaction_makes_an_old_version_gone_in_either_way() {
    let cluster = Cluster::new();
    let nodes = cluster.nodes_of("node-1").await;
    let version = nodes.get("node-1").await.unwrap().resource_version().unwrap();
    let params = WatchParams::default().fields("metadata.name=node-1");
    cluster.api.compact(GoneAs::Status);
    let answer = refused(nodes.watch(&params, &version).await.map(drop));
    assert_eq!((answer.0, answer.1.as_str()), (410, "Expired"));
    cluster.api.compact(GoneAs::Event);
    let mut events = Box::pin(nodes.watch(&params, &version).await.unwrap());
    match next(&mut events).await.unwrap() {
        WatchEvent::Error(status) => {
            assert_eq!((status.code, status.reason.as_str()), (410, "Expired"))
        }
        other => panic!("{other:?}"),
    }
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_watcher_lists_again_after_gone_in_the_stream() {
    let cluster = Cluster::new();
    let mut events = Box::pin(watcher(cluster.nodes_of("node-1").await, config()));
    initial(&mut events).await;
    cluster.api.inject(Fault::GoneInStream.on(Verb::Watch).times(1));
    assert!(matches!(next(&mut events).await, Err(watcher::Error::WatchError(_))));
    cluster.api.annotate("node-1", "example.com/a", Some("1"));
    assert_eq!(initial(&mut events).await[0].annotations()["example.com/a"], "1");
    assert_eq!(cluster.api.count(Verb::List), 2);
}

/// kube-rs keeps asking with the same version after an HTTP 410; so must whoever uses it know.
#[tokio::test]
async fn gone_as_status_is_an_error_each_time() {
    let cluster = Cluster::new();
    let mut events = Box::pin(watcher(cluster.nodes_of("node-1").await, config()));
    initial(&mut events).await;
    cluster.api.inject(Fault::Gone.on(Verb::Watch).times(2));
    for _ in 0..2 {
        assert!(matches!(next(&mut events).await, Err(watcher::Error::WatchStartFailed(_))));
    }
    cluster.api.annotate("node-1", "example.com/a", Some("1"));
    assert_eq!(applied(&mut events).await.annotations()["example.com/a"], "1");
    assert_eq!(cluster.api.count(Verb::List), 1);
}
