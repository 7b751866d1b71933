//! Where the Node's name, the credentials and the Node itself come from, go away and come back.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use tokio::time::{advance, sleep};
use trident_lab::kube::{Fault, GoneAs, User, Verb, WatchCut};
use trident_lab::tls::serve::RequestRecord;
use trident_lab::tls::{Credential, Login, Pem, kubeconfig};

use super::*;
use crate::kubernetes::{Node, Seen};

/// The longest time that a watch is open.
const WATCH: Duration = Duration::from_secs(235);
const CERT: (&str, &str) = ("KUBERNETES_NODE_NAME_SOURCE", "kubelet-cert");

impl Cluster {
    fn kubelet_cert(&self, path: &str) -> Vec<(&'static str, String)> {
        vec![
            ("KUBERNETES_NODE_NAME", String::new()),
            (CERT.0, CERT.1.to_owned()),
            ("KUBERNETES_KUBELET_CERT_PATH", self.kubelet.path(path).display().to_string()),
        ]
    }

    fn new_cert(&self) -> Credential {
        self.pki.kubelet_cert(NODE)
    }

    /// Requests with this certificate.
    fn requests_with(&self, credential: &Credential) -> Vec<RequestRecord> {
        let serial = credential.serial();
        let with = |request: &RequestRecord| request.client_serial.as_deref() == Some(&serial);
        self.api.requests().into_iter().filter(with).collect()
    }

    fn refused(&self) -> usize {
        self.api.requests().iter().filter(|request| request.status == Some(401)).count()
    }
}

impl Fed {
    async fn sees(&mut self, text: &str) -> Result<News> {
        let seen = |news: &News| annotation(news) == Some(text);
        self.until(&format!("it sees {text}"), seen).await
    }
}

fn node(news: &News) -> Option<&Node> {
    match &news.seen {
        Seen::Node(node) => Some(node),
        Seen::Unknown | Seen::Gone => None,
    }
}

fn annotation(news: &News) -> Option<&str> {
    node(news)?.annotations.get(REQUEST).map(String::as_str)
}

/// With an open watch.
async fn watching(cluster: &Cluster, settings: &[(&str, &str)]) -> Result<Fed> {
    let fed = cluster.feed(settings)?;
    cluster.api.wait_for_watches(1, AMPLE).await?;
    Ok(fed)
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_not_known_yet_is_waited_for() -> Result<()> {
    let (cluster, log) = (Cluster::new()?, Log::new());
    let settings = cluster.kubelet_cert("pki/late.pem");
    let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut fed = cluster.feed(&settings)?;
    let ca = cluster.pki.ca_pem();
    let wrong = cluster.pki.client_cert("somebody", "system:nodes").combined_pem();
    let stages = [
        (None, "cannot read"),
        (Some(""), "no client certificate"),
        (Some("-----BEGIN CERTIFICATE-----\nAAAA\n"), "no client certificate"),
        (Some(ca.as_str()), "no client certificate"),
        (Some(wrong.as_str()), "no client certificate"),
    ];
    for (text, trouble) in stages {
        text.map_or(Ok(()), |text| cluster.kubelet.write("pki/late.pem", text))?;
        sleep(MINUTE * 10).await;
        let said = fed.news.borrow().trouble.clone().context("no trouble")?;
        ensure!(said.contains(trouble) && said.contains("late.pem"), "{text:?}: {said}");
    }
    ensure!(cluster.api.requests().is_empty(), "it asked for some other Node");
    cluster.kubelet.write("pki/late.pem", cluster.new_cert().combined_pem())?;
    let news = fed.until("the Node is seen", |news| node(news).is_some()).await?;
    ensure!(news.api.context("no client")?.name() == NODE);
    fed.until("no trouble", |news| news.trouble.is_none()).await?;
    ensure!(log.lines().len() == 2, "{:#?}", log.lines());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_kubeconfig_that_is_not_there_yet_is_waited_for() -> Result<()> {
    let cluster = Cluster::new()?;
    let good = std::fs::read_to_string(cluster.kubelet.kubeconfig())?;
    cluster.kubelet.configure("half a")?;
    let mut fed = cluster.feed(&[])?;
    sleep(MINUTE * 10).await;
    ensure!(fed.news.borrow().trouble.as_ref().is_some_and(|it| it.contains("kubeconfig")));
    cluster.kubelet.configure(&good)?;
    fed.until("the Node is seen", |news| node(news).is_some()).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_is_replaced_is_taken_over_while_the_old_one_is_good() -> Result<()> {
    let cluster = Cluster::new()?;
    let mut fed = watching(&cluster, &[]).await?;
    let new = cluster.new_cert();
    cluster.kubelet.rotate(&new)?;
    sleep(WATCH + MINUTE).await;
    ensure!(!cluster.requests_with(&new).is_empty(), "the old one is still used");
    cluster.ask("seen with the new one");
    let news = fed.sees("seen with the new one").await?;
    ensure!(cluster.refused() == 0 && news.trouble.is_none());
    let (before, api) = (cluster.requests_with(&new).len(), news.api.context("no client")?);
    api.get().await?;
    ensure!(cluster.requests_with(&new).len() == before + 1, "writes go with the old one");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_is_replaced_while_the_server_lets_nobody_watch() -> Result<()> {
    let cluster = Cluster::new()?;
    cluster.api.inject(Fault::Status(503).on(Verb::Watch));
    let mut fed = cluster.feed(&[])?;
    fed.until("there is a trouble", |news| news.trouble.is_some()).await?;
    let new = cluster.new_cert();
    cluster.kubelet.rotate(&new)?;
    sleep(MINUTE * 2).await;
    ensure!(!cluster.requests_with(&new).is_empty(), "the old one is still used");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_expires_under_an_open_watch() -> Result<()> {
    for cut in [None, Some(WatchCut::Clean), Some(WatchCut::Abrupt)] {
        let cluster = Cluster::new()?;
        let (old, new) = (cluster.new_cert(), cluster.new_cert());
        cluster.kubelet.rotate(&old)?;
        let mut fed = watching(&cluster, &[]).await?;
        cluster.api.revoke(&old);
        // The server lets the stream run on, or ends it at once.
        if let Some(cut) = cut {
            cluster.api.cut_watches(cut);
        }
        sleep(WATCH + MINUTE).await;
        ensure!(cluster.refused() > 0, "{cut:?}: nothing was refused");
        cluster.kubelet.rotate(&new)?;
        cluster.ask("with the new one");
        fed.sees("with the new one").await?;
        fed.until("no trouble", |news| news.trouble.is_none()).await?;
        ensure!(cluster.refused() < 40, "{cut:?}: {} refused", cluster.refused());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_is_refused_in_the_handshake() -> Result<()> {
    let cluster = Cluster::new()?;
    let an_hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    let name = format!("system:node:{NODE}");
    let expired = cluster.pki.client_cert_expiring(&name, "system:nodes", an_hour_ago);
    cluster.kubelet.rotate(&expired)?;
    cluster.api.demand_client_certs(&cluster.pki.server_cert(&["127.0.0.1"]))?;
    let mut fed = cluster.feed(&[])?;
    sleep(MINUTE * 10).await;
    let said = fed.news.borrow().trouble.clone().context("no trouble")?;
    ensure!(said.contains("CertificateExpired"), "{said}");
    ensure!(cluster.api.connections().accepted < 60, "{:?}", cluster.api.connections());
    cluster.kubelet.rotate(&cluster.new_cert())?;
    fed.until("the Node is seen", |news| node(news).is_some()).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_token_file_is_read_anew() -> Result<()> {
    let cluster = Cluster::new()?;
    let token = cluster.kubelet.path("token");
    let (ca, login) = (cluster.pki.ca_pem(), Login::TokenFile(&token));
    cluster.kubelet.configure(&kubeconfig(&cluster.url, Pem::Inline(&ca), login))?;
    cluster.kubelet.write("token", "first\n")?;
    cluster.api.set_token("first", Some(User::node(NODE)));
    let mut fed = watching(&cluster, &[]).await?;
    // Before the old one ends: nothing is refused.
    cluster.api.set_token("second", Some(User::node(NODE)));
    cluster.kubelet.write("token", "second\n")?;
    sleep(WATCH + MINUTE).await;
    cluster.api.set_token("first", None);
    sleep(WATCH + MINUTE).await;
    ensure!(cluster.refused() == 0, "it went on with the old token");
    // After: it is refused until there is a new one.
    cluster.api.set_token("second", None);
    sleep(WATCH + MINUTE).await;
    ensure!(cluster.refused() > 0, "it did not ask");
    cluster.api.set_token("third", Some(User::node(NODE)));
    cluster.kubelet.write("token", "third\n")?;
    cluster.ask("with the third");
    fed.sees("with the third").await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_ca_that_is_replaced() -> Result<()> {
    let cluster = Cluster::new()?;
    let mut fed = watching(&cluster, &[]).await?;
    let new = Pki::new();
    cluster.api.set_server_cert(&new.server_cert(&["127.0.0.1"]))?;
    cluster.api.reset_connections();
    let failed = |news: &News| {
        news.trouble.as_ref().is_some_and(|it| it.contains("invalid peer certificate"))
    };
    fed.until("the new one is not trusted", failed).await?;
    cluster.kubelet.write("pki/ca.crt", format!("{}{}", cluster.pki.ca_pem(), new.ca_pem()))?;
    cluster.ask("trusted");
    fed.sees("trusted").await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_others_write_wakes_nobody() -> Result<()> {
    let cluster = Cluster::new()?;
    let mut fed = watching(&cluster, &[]).await?;
    cluster.ask("ours");
    fed.sees("ours").await?;
    fed.news.mark_unchanged();
    let (requests, before) = (cluster.api.requests().len(), version(&fed));
    let half = "x".repeat(120 * 1024);
    for n in 0..400 {
        let text = if n % 100 == 0 { format!("{n}{half}") } else { n.to_string() };
        cluster.api.annotate(NODE, "example.com/busy", Some(&text));
        cluster.api.touch(NODE);
        advance(Duration::from_millis(10)).await;
    }
    sleep(Duration::from_secs(1)).await;
    ensure!(!fed.news.has_changed()?, "it was woken");
    ensure!(version(&fed) > before, "it saw nothing of it");
    ensure!(cluster.api.requests().len() == requests, "it asked");
    // Ours among them: one news of the newest, however many there were.
    for n in 0..100 {
        cluster.ask(&n.to_string());
    }
    let news = fed.sees("99").await?;
    let kept = node(&news).map(|node| node.annotations.clone());
    let ours = BTreeMap::from([(REQUEST.to_owned(), "99".to_owned())]);
    ensure!(kept == Some(ours), "{news:?}");
    Ok(())
}

fn version(fed: &Fed) -> u64 {
    node(&fed.news.borrow()).and_then(|node| node.resource_version.parse().ok()).unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn a_huge_node() -> Result<()> {
    let cluster = Cluster::new()?;
    // Near the limit of all annotations together, each character escaped in six.
    cluster.api.annotate(NODE, "example.com/huge", Some(&"\u{1}".repeat(255 * 1024)));
    let mut fed = watching(&cluster, &[]).await?;
    for text in ["a", "b"] {
        cluster.ask(text);
        let news = fed.sees(text).await?;
        ensure!(format!("{news:?}").len() < 1024, "it is kept");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_node_that_goes_and_comes_back() -> Result<()> {
    let cluster = Cluster::new()?;
    let mut fed = watching(&cluster, &[]).await?;
    let first = fed.until("it is seen", |news| node(news).is_some()).await?;
    for round in 0..3 {
        cluster.api.delete_node(NODE);
        let news = fed.until("it is gone", |news| news.seen == Seen::Gone).await?;
        ensure!(news.is_current && news.trouble.is_none(), "{news:?}");
        // Over the end of watches, and of the agent.
        sleep(MINUTE * 10 * round).await;
        if round == 1 {
            fed = cluster.feed(&[])?;
            fed.until("it still is gone", |news| news.seen == Seen::Gone).await?;
        }
        ensure!(fed.news.borrow().seen == Seen::Gone);
        cluster.api.add_node(NODE);
        let back = fed.until("it is back", |news| node(news).is_some()).await?;
        ensure!(node(&back).map(|it| &it.uid) != node(&first).map(|it| &it.uid), "the same uid");
    }
    cluster.api.recreate_node(NODE);
    cluster.ask("on the newest");
    fed.sees("on the newest").await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_nodes_identity_is_checked_on_every_event_and_said_once() -> Result<()> {
    const OURS: &str = "4c4c4544-0042-3510-8053-b4c04f4d3332";
    let log = Log::new();
    let cluster = Cluster::new()?;
    cluster.host_file("sys/class/dmi/id/product_uuid", &format!("{}\n", OURS.to_uppercase()))?;
    let mut fed = watching(&cluster, &[("KUBERNETES_VALIDATE_NODE_UUID", "true")]).await?;
    cluster.ask("a");
    fed.sees("a").await?;
    cluster.api.set_system_uuid(NODE, "00000000-0000-0000-0000-000000000001");
    fed.until("it is another's", |news| news.seen == Seen::Gone).await?;
    for n in 0..50 {
        cluster.ask(&n.to_string());
        cluster.api.touch(NODE);
    }
    sleep(WATCH * 3).await;
    ensure!(fed.news.borrow().seen == Seen::Gone);
    cluster.api.set_system_uuid(NODE, OURS);
    fed.sees("49").await?;
    cluster.api.set_system_uuid(NODE, "");
    cluster.ask("unchecked");
    fed.sees("unchecked").await?;
    cluster.api.touch(NODE);
    cluster.ask("unchecked still");
    fed.sees("unchecked still").await?;
    let said: Vec<_> = log.lines().into_iter().map(|line| line.chars().take(4).collect()).collect();
    let said: Vec<String> = said;
    ensure!(said == ["WARN", "INFO", "WARN"], "{:#?}", log.lines());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_from_where_it_was() -> Result<()> {
    let log = Log::new();
    let cluster = Cluster::new()?;
    let mut fed = watching(&cluster, &[]).await?;
    for (n, cut) in [WatchCut::Clean, WatchCut::Abrupt, WatchCut::MidLine]
        .into_iter()
        .cycle()
        .take(9)
        .enumerate()
    {
        sleep(MINUTE).await;
        cluster.api.cut_watches(cut);
        cluster.ask(&n.to_string());
        let begun = tokio::time::Instant::now();
        fed.sees(&n.to_string()).await?;
        // However often it is cut, and however quiet the Node was: it held for a minute.
        ensure!(begun.elapsed() < Duration::from_secs(10), "{n}: after {:?}", begun.elapsed());
        ensure!(cluster.api.count(Verb::List) == 1, "{cut:?}: it listed again");
    }
    ensure!(cluster.api.count(Verb::Get) == 1 && log.lines().is_empty(), "{:#?}", log.lines());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_forgotten_is_listed_again() -> Result<()> {
    for gone in [GoneAs::Status, GoneAs::Event] {
        let cluster = Cluster::new()?;
        let mut fed = watching(&cluster, &[]).await?;
        cluster.api.compact(gone);
        cluster.api.cut_watches(WatchCut::Clean);
        cluster.ask("after it");
        fed.sees("after it").await?;
        ensure!(cluster.api.count(Verb::List) == 2 && cluster.api.count(Verb::Get) == 1);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_vanishes_without_a_word_is_noticed() -> Result<()> {
    let cluster = Cluster::new()?;
    let mut fed = watching(&cluster, &[]).await?;
    // The old connections stay silent for ever, new ones work: a load balancer that forgot them.
    cluster.api.inject(Fault::DropSilently);
    cluster.api.clear_faults();
    cluster.ask("behind its back");
    let begun = tokio::time::Instant::now();
    fed.sees("behind its back").await?;
    ensure!(begun.elapsed() < WATCH + MINUTE, "only after {:?}", begun.elapsed());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_a_quiet_node_costs_little() -> Result<()> {
    let cluster = Cluster::new()?;
    let fed = cluster.feed(&[])?;
    sleep(MINUTE * 60).await;
    let count = |verb| cluster.api.count(verb);
    ensure!(count(Verb::Get) == 1 && count(Verb::List) == 1, "{:?}", cluster.api.requests());
    // Each is open for 150 to 220 s.
    let watches = count(Verb::Watch);
    ensure!((16..=25).contains(&watches), "{watches} watches");
    ensure!(cluster.api.requests().len() == watches + 2);
    let narrow = |request: &RequestRecord| {
        let wide = request.path == "/api/v1/nodes";
        !wide || request.query.contains("fieldSelector=metadata.name%3Dnode-1")
    };
    ensure!(cluster.api.requests().iter().all(narrow), "a kubelet may not ask so");
    let meta = |request: &RequestRecord| {
        request.accept.as_ref().is_some_and(|it| it.contains("as=PartialObjectMetadata"))
    };
    ensure!(cluster.api.requests().iter().all(meta), "it reads more than metadata");
    drop(fed);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn credentials_that_were_refused_elsewhere_are_read_anew() -> Result<()> {
    let cluster = Cluster::new()?;
    let fed = watching(&cluster, &[]).await?;
    let (log, new) = (Log::new(), cluster.new_cert());
    cluster.kubelet.rotate(&new)?;
    fed.reconnect.notify_one();
    // The read that it connects with, and the list.
    cluster.api.wait_for_requests(AMPLE, |_| cluster.requests_with(&new).len() > 1).await?;
    let said = log.lines();
    ensure!(said.len() == 1 && said[0].contains("the credentials were replaced"), "{said:#?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_name_is_none_of_ours() -> Result<()> {
    let cluster = Cluster::new()?;
    let event = |kind: &str| {
        let metadata = r#"{"name":"node-2","uid":"x","resourceVersion":"1003","annotations":{}}"#;
        format!("{{\"type\":\"{kind}\",\"object\":{{\"metadata\":{metadata}}}}}\n")
    };
    let body = ["ADDED", "MODIFIED", "DELETED"].map(event).concat().into();
    cluster
        .api
        .inject(Fault::Reply { status: 200, headers: vec![], body }.on(Verb::Watch).times(1));
    let mut fed = watching(&cluster, &[]).await?;
    cluster.api.wait_for_requests(AMPLE, |all| all.len() > 3).await?;
    let news = fed.until("it is still ours", |news| node(news).is_some()).await?;
    let real = cluster.api.node(NODE).unwrap_or_default();
    ensure!(
        node(&news).is_some_and(|node| real["metadata"]["uid"] == node.uid.as_str()),
        "{news:?}"
    );
    Ok(())
}
