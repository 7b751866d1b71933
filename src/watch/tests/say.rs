//! A status that cannot be written is neither lost nor hammered.

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use trident_lab::kube::{Fault, Verb};

use super::rates::{Case, OUTAGE, faults, reply, side_by_side};
use super::*;
use crate::contract::{Code, Phase, Request, Status, Utc};
use crate::decide::{Act, Key, Mark, Publish, apply};
use crate::kubernetes::Seen;
use crate::state::State;
use crate::watch::run::Loop;

const STATUS: &str = "acl.microsoft.com/update-status";
const ROLLBACK: &str = r#"{"schemaVersion":"1.0","operation":"rollback",
    "nodeUpdateId":"7b1d5c0e-3f62-4a7b-9d2e-5c1f0a9b8e44","operationId":"c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90"}"#;

/// The loop with a feed, and a recorded status that is not published yet.
struct Saying {
    fed: Fed,
    looping: Loop,
    publish: Publish,
}

impl Saying {
    async fn new(cluster: &Cluster) -> Result<Self> {
        let mut fed = cluster.feed(&[])?;
        fed.until("the Node is seen", |news| matches!(news.seen, Seen::Node(_))).await?;
        let watcher = cluster.watcher()?;
        let request = Request::parse(ROLLBACK).map_err(|broken| anyhow::anyhow!("{broken:?}"))?;
        let now = Utc::now();
        let status = Status::begin(&request, Phase::Rollback, Some("1".to_owned()), now);
        let status = status.finish(Code::OperationFailed, &"because ".repeat(20), now);
        let act = Act::Complete(Box::new(status.clone()));
        watcher.store.update(|state| apply(state, &State::default(), &act, now))?;
        let mark = Mark::Operation(status.operation_id.clone());
        let publish = Publish { key: Key::Status, status, mark };
        let reconnect = Arc::clone(&fed.reconnect);
        let looping = Loop::new(watcher, fed.news.clone(), Arc::default(), reconnect);
        Ok(Self { fed, looping, publish })
    }

    fn is_published(&self) -> Result<bool> {
        let state = self.looping.watcher.store.read()?;
        Ok(state.find(&self.publish.status.operation_id).is_some_and(|done| done.published))
    }

    /// What the loop does for a status, until it is published or the time is over.
    async fn go_on(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.is_published()? {
            self.looping.take_news();
            if self.looping.watcher.said.is_open() {
                self.looping.watcher.say(self.publish.clone()).await?;
            }
            self.looping.reconnect();
            let opens = self.looping.watcher.said.opens();
            let wake = opens.unwrap_or_else(|| Instant::now() + Duration::from_secs(2)).min(end);
            tokio::select! {
                changed = self.looping.news.changed() => changed?,
                () = sleep_until(wake) => {}
            }
        }
        Ok(())
    }
}

/// What stands on the Node.
fn said(cluster: &Cluster) -> Option<Status> {
    Status::from_json(&cluster.api.annotation(NODE, STATUS)?)
}

/// Ten minutes of it, and what follows.
async fn refused((name, fault, most): Case) -> Result<()> {
    let (cluster, log) = (Cluster::new()?, Log::new());
    let mut saying = Saying::new(&cluster).await?;
    cluster.api.inject(fault.on(Verb::Patch));
    saying.go_on(OUTAGE).await?;
    let patches = cluster.api.count(Verb::Patch);
    // Each wait grows to 30 seconds and more; one that is too large is written twice.
    ensure!((2..=most.min(60)).contains(&patches), "{name}: {patches} writes");
    let requests = cluster.api.requests().len();
    ensure!(requests <= 150, "{name}: {requests} requests");
    ensure!(!saying.is_published()?, "{name}: taken for published");
    cluster.api.clear_faults();
    saying.go_on(AMPLE).await?;
    ensure!(saying.is_published()?, "{name}: it gave up");
    let said = said(&cluster).is_some_and(|said| said.says_the_same(&saying.publish.status));
    ensure!(said, "{name}: something else is on the Node");
    let errors = log.lines().iter().filter(|line| line.starts_with("ERROR")).count();
    ensure!(errors <= 1 && log.lines().len() <= 6, "{name}: {:#?}", log.lines());
    Ok(())
}

#[test]
fn never_a_busy_loop_and_never_lost() -> Result<()> {
    let no_node = r#"{"kind":"Status","reason":"NotFound","code":404,"details":{"kind":"nodes"}}"#;
    let only_the_watch_knows = ("a Node that only the watch knows", reply(404, no_node, &[]), 60);
    let cases = faults().into_iter().chain([only_the_watch_knows]).collect();
    side_by_side(cases, refused).map(drop)
}

/// The first look at the Node and the first pass of the loop are in no order.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_not_taken_yet_is_not_replaced() -> Result<()> {
    let cluster = Cluster::new()?;
    let mut fed = cluster.feed(&[])?;
    let (news, reconnect) = (fed.news.clone(), Arc::clone(&fed.reconnect));
    let mut looping = Loop::new(cluster.watcher()?, news, Arc::default(), reconnect);
    fed.until("the Node is seen", |news| matches!(news.seen, Seen::Node(_))).await?;
    looping.reconnect();
    tokio::time::sleep(Duration::from_secs(20)).await;
    ensure!(cluster.api.count(Verb::Get) == 1, "{:#?}", cluster.api.requests());
    looping.take_news();
    ensure!(looping.watcher.api.is_some(), "it was lost");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_write_is_of_one_annotation_on_one_very_node() -> Result<()> {
    let cluster = Cluster::new()?;
    cluster.api.annotate(NODE, "example.com/other", Some("stays"));
    let mut saying = Saying::new(&cluster).await?;
    let before = cluster.api.node(NODE).unwrap_or_default();
    saying.go_on(AMPLE).await?;
    let requests = cluster.api.requests();
    let patch = requests.iter().find(|request| request.verb == Verb::Patch);
    let patch = patch.ok_or_else(|| anyhow::anyhow!("nothing was written"))?;
    ensure!(patch.content_type.as_deref() == Some("application/merge-patch+json"));
    ensure!(patch.path == "/api/v1/nodes/node-1" && patch.query.contains("fieldManager="));
    let value = cluster.api.annotation(NODE, STATUS);
    let only = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "uid": before["metadata"]["uid"], "annotations": { STATUS: value } },
    });
    ensure!(serde_json::from_slice::<Value>(&patch.body)? == only, "{patch:?}");
    let mut after = cluster.api.node(NODE).unwrap_or_default();
    after["metadata"]["annotations"] = before["metadata"]["annotations"].clone();
    after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    ensure!(after == before, "more was changed: {after}");
    Ok(())
}

/// An API server whose store was restored from a backup counts from an earlier version on.
#[tokio::test(start_paused = true)]
async fn a_server_that_went_back_in_time_is_believed() -> Result<()> {
    let cluster = Cluster::new()?;
    let mut saying = Saying::new(&cluster).await?;
    saying.looping.take_news();
    let Seen::Node(known) = &mut saying.looping.watcher.node else {
        anyhow::bail!("no Node: {:?}", saying.looping.watcher.node);
    };
    known.resource_version = "999999999".to_owned();
    cluster.ask(ROLLBACK);
    saying.fed.until("it is asked", is_asked).await?;
    saying.looping.take_news();
    saying.looping.read_anew().await;
    saying.looping.take_news();
    let node = saying.looping.watcher.node.clone();
    ensure!(is_asked(&News { seen: node.clone(), ..News::default() }), "{node:?}");
    Ok(())
}

fn is_asked(news: &News) -> bool {
    matches!(&news.seen, Seen::Node(node) if node.annotations.contains_key(REQUEST))
}

#[tokio::test(start_paused = true)]
async fn annotations_that_are_full() -> Result<()> {
    const LIMIT: usize = 256 * 1024;
    let (cluster, log) = (Cluster::new()?, Log::new());
    let mut saying = Saying::new(&cluster).await?;
    let short = saying.publish.status.clone().with_message("").to_json().len();
    let fill = |left: usize| {
        cluster.api.annotate(NODE, "example.com/filler", None);
        let node = cluster.api.node(NODE).unwrap_or_default();
        let annotations = node["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        let size = |(key, value): (String, Value)| key.len() + value.as_str().map_or(0, str::len);
        let used: usize =
            annotations.into_iter().map(size).sum::<usize>() + "example.com/filler".len();
        cluster.api.annotate(NODE, "example.com/filler", Some(&"x".repeat(LIMIT - used - left)));
    };
    // Not even room for the shortest.
    fill(STATUS.len() + short - 10);
    saying.go_on(OUTAGE).await?;
    ensure!(!saying.is_published()? && said(&cluster).is_none());
    let patches = cluster.api.count(Verb::Patch);
    ensure!((4..=60).contains(&patches), "{patches} writes");
    let lines = log.lines();
    let clear = lines.iter().find(|line| line.starts_with("ERROR")).is_some_and(|line| {
        line.contains("metadata.annotations: Too long") && line.contains("262144 bytes")
    });
    ensure!(clear && lines.len() <= 3, "{lines:#?}");
    // Room for the shortest.
    fill(STATUS.len() + short + 10);
    saying.go_on(AMPLE).await?;
    ensure!(saying.is_published()?, "it was lost");
    let said = said(&cluster).map(|said| (said.code, said.message.as_str().to_owned()));
    ensure!(said == Some((Code::OperationFailed, String::new())), "{said:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_another_by_now() -> Result<()> {
    let cluster = Cluster::new()?;
    let mut saying = Saying::new(&cluster).await?;
    saying.looping.take_news();
    cluster.api.recreate_node(NODE);
    // The watch has not told of it yet.
    saying.looping.watcher.say(saying.publish.clone()).await?;
    ensure!(said(&cluster).is_none(), "it wrote on a Node that it never read");
    saying.go_on(AMPLE).await?;
    ensure!(said(&cluster).is_some());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_parks_it() -> Result<()> {
    let cluster = Cluster::new()?;
    let mut saying = Saying::new(&cluster).await?;
    saying.looping.take_news();
    cluster.api.delete_node(NODE);
    saying.looping.watcher.say(saying.publish.clone()).await?;
    ensure!(saying.looping.watcher.node == Seen::Gone, "the answer said so");
    let state = saying.looping.watcher.store.read()?;
    saying.go_on(OUTAGE).await?;
    ensure!(cluster.api.count(Verb::Patch) == 1, "it writes on what is not there");
    ensure!(saying.looping.watcher.store.read()? == state, "it changed the state");
    cluster.api.add_node(NODE);
    saying.go_on(AMPLE).await?;
    ensure!(saying.is_published()? && said(&cluster).is_some());
    drop(saying.fed);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_404_of_something_else_is_not_the_nodes_end() -> Result<()> {
    let cluster = Cluster::new()?;
    let no_such_path = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound",
        "message":"the server could not find the requested resource","details":{},"code":404}"#;
    for body in ["<html>not found</html>", "{}", no_such_path] {
        let mut saying = Saying::new(&cluster).await?;
        cluster.api.inject(reply(404, body, &[]));
        saying.looping.take_news();
        saying.looping.watcher.say(saying.publish.clone()).await?;
        ensure!(matches!(saying.looping.watcher.node, Seen::Node(_)), "{body}");
        cluster.api.clear_faults();
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_slow_read_finds_what_the_watch_lost() -> Result<()> {
    let cluster = Cluster::new()?;
    let mut saying = Saying::new(&cluster).await?;
    cluster.api.wait_for_watches(1, AMPLE).await?;
    saying.looping.take_news();
    // A load balancer forgot the watch; new connections are served.
    cluster.api.inject(Fault::DropSilently);
    cluster.api.clear_faults();
    cluster.ask("missed");
    for _ in 0..2 {
        // The first may go by a connection that was forgotten too.
        saying.looping.read_anew().await;
    }
    let Seen::Node(node) = &saying.looping.watcher.node else { anyhow::bail!("no Node") };
    ensure!(node.annotations.get(REQUEST).is_some_and(|text| text == "missed"), "{node:?}");
    let connected = |cluster: &Cluster| cluster.api.count(Verb::List);
    let before = connected(&cluster);
    cluster.api.inject(Fault::Hang.on(Verb::Get).times(1));
    saying.looping.read_anew().await;
    let anew = |_: &[_]| connected(&cluster) > before;
    cluster.api.wait_for_requests(Duration::from_secs(30), anew).await?;
    Ok(())
}
