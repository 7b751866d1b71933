//! `--validate-connection kubernetes`, as a person runs it: its exit status, and one line that says what to do.

use std::process::Output;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use tokio::time::{Instant, timeout};
use trident_lab::kube::{Fault, Verb};
use trident_lab::tls::Pki;

use super::*;
use crate::tunnel::Tunnel;

type Environment<'a> = &'a [(&'a str, &'a str)];

const LIMIT: Duration = Duration::from_secs(60);

/// Runs the program with this environment and no other.
async fn probe(environment: &[(&str, &str)]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trident-acl-agent"));
    command.args(["--log-level", "error", "--validate-connection", "kubernetes"]);
    command.env_clear().envs(environment.iter().copied()).kill_on_drop(true);
    Ok(timeout(LIMIT, command.output()).await.context("it hangs")??)
}

/// With the settings that lead to this cluster, and these.
async fn probe_of(cluster: &Cluster, environment: &[(&str, &str)]) -> Result<Output> {
    let kubeconfig = cluster.kubelet.kubeconfig().display().to_string();
    let mut all = vec![
        ("TRIDENT_ACL_AGENT_KUBERNETES_KUBECONFIG", kubeconfig.as_str()),
        ("TRIDENT_ACL_AGENT_KUBERNETES_NODE_NAME", NODE),
    ];
    all.extend(environment);
    probe(&all).await
}

/// One line, with all of this in it.
fn expect(name: &str, output: &Output, code: i32, parts: &[&str]) -> Result<()> {
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(code), "{name}: {:?}: {said}", output.status);
    ensure!(said.lines().count() == 1 && output.stdout.is_empty(), "{name}: {said}");
    for part in parts {
        ensure!(said.contains(part), "{name}: no {part:?} in: {said}");
    }
    ensure!(!said.contains("s3cret"), "{name} tells a secret: {said}");
    Ok(())
}

const NAME: &str = "TRIDENT_ACL_AGENT_KUBERNETES_NODE_NAME";
const SOURCE: &str = "TRIDENT_ACL_AGENT_KUBERNETES_NODE_NAME_SOURCE";
const CERT: &str = "TRIDENT_ACL_AGENT_KUBERNETES_KUBELET_CERT_PATH";
const KUBECONFIG: &str = "TRIDENT_ACL_AGENT_KUBERNETES_KUBECONFIG";
const SERVER: &str = "TRIDENT_ACL_AGENT_KUBERNETES_API_SERVER";

#[tokio::test]
async fn a_good_connection() -> Result<()> {
    let cluster = Cluster::new()?;
    expect("good", &probe_of(&cluster, &[]).await?, 0, &["kubernetes: Node node-1 can be read"])?;
    let certificate = cluster.kubelet.certificate().display().to_string();
    let from_cert = [(NAME, ""), (SOURCE, "kubelet-cert"), (CERT, certificate.as_str())];
    expect("by certificate", &probe_of(&cluster, &from_cert).await?, 0, &["Node node-1"])?;
    let both = [(SOURCE, "kubelet-cert"), (CERT, "/missing")];
    expect("the name wins", &probe_of(&cluster, &both).await?, 0, &["Node node-1"])?;
    ensure!(cluster.api.requests().iter().all(|request| request.verb == Verb::Get), "it did more");
    Ok(())
}

#[tokio::test]
async fn settings_that_do_not_lead_there() -> Result<()> {
    let cluster = Cluster::new()?;
    cluster.kubelet.write("broken", "a: [s3cret")?;
    let broken = cluster.kubelet.path("broken").display().to_string();
    let cases: [(&str, Environment, &[&str]); 8] = [
        ("no kubeconfig", &[(KUBECONFIG, "/missing")], &[KUBECONFIG, "/missing", "No such file"]),
        ("a broken one", &[(KUBECONFIG, &broken)], &[KUBECONFIG, "check", "/broken"]),
        (
            "no certificate",
            &[(NAME, ""), (SOURCE, "kubelet-cert"), (CERT, "/missing")],
            &["the name of this node is not known", NAME, "wait for kubelet", "/missing"],
        ),
        (
            "a certificate of nobody",
            &[(NAME, ""), (SOURCE, "kubelet-cert"), (CERT, &broken)],
            &[NAME, "no client certificate", "system:node:<name>"],
        ),
        // The host of the test is not called like the Node.
        ("the hostname", &[(NAME, "")], &["403 Forbidden", NAME, "may read no Node but its own"]),
        (
            "nobody there",
            &[(SERVER, "https://127.0.0.1:1")],
            &["check the address", "Connection refused"],
        ),
        ("no such host", &[(SERVER, "https://api.invalid:1")], &["check the address", "dns error"]),
        (
            "a bad proxy",
            &[("HTTPS_PROXY", "socks5://u:s3cret@p.test")],
            &["the proxy must be an http:// one, not socks5://"],
        ),
    ];
    for (name, environment, parts) in cases {
        expect(name, &probe_of(&cluster, environment).await?, 1, parts)?;
    }
    let malformed = probe_of(&cluster, &[(NAME, "Node 1")]).await?;
    expect("a name that no Node has", &malformed, 78, &[NAME, "not a DNS subdomain"])
}

#[tokio::test]
async fn a_machine_without_a_ca() -> Result<()> {
    let cluster = Cluster::new()?;
    let text = std::fs::read_to_string(cluster.kubelet.kubeconfig())?;
    let bare = text.lines().filter(|line| !line.contains("certificate-authority"));
    cluster.kubelet.configure(&bare.collect::<Vec<_>>().join("\n"))?;
    let none = [("SSL_CERT_FILE", "/missing")];
    let parts = ["check", KUBECONFIG, "SSL_CERT_FILE", "No CA certificates"];
    expect("no CA", &probe_of(&cluster, &none).await?, 1, &parts)
}

#[tokio::test]
async fn a_server_that_is_not_well() -> Result<()> {
    let page =
        |status| Fault::Reply { status, headers: vec![], body: "<html>s3cret</html>".into() };
    let cases: [(&str, Fault, &[&str]); 7] = [
        ("401", Fault::Status(401), &["401 Unauthorized", "check the credential", "expired"]),
        ("403", Fault::Status(403), &["403 Forbidden", "this node's kubelet", NAME]),
        ("404", page(404), &["404 Not Found", "check the address", SERVER]),
        ("429", Fault::Status(429), &["429", "try again later"]),
        ("503", Fault::Status(503), &["503", "try again later"]),
        ("a sign-in page", page(200), &["something else answers", "check the address"]),
        ("no answer", Fault::Hang, &["no answer within 15s", "check the address", "HTTPS_PROXY"]),
    ];
    for (name, fault, parts) in cases {
        let cluster = Cluster::new()?;
        cluster.api.inject(fault);
        let begun = Instant::now();
        expect(name, &probe_of(&cluster, &[]).await?, 1, parts)?;
        ensure!(cluster.api.requests().len() == 1, "{name}: it asked again");
        ensure!(begun.elapsed() < LIMIT / 2, "{name}: it took {:?}", begun.elapsed());
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_not_trusted_or_does_not_trust_us() -> Result<()> {
    let cluster = Cluster::new()?;
    let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
    let tls = ["check certificate-authority and tls-server-name", "the clock"];
    let (pki, names) = (&cluster.pki, ["127.0.0.1"]);
    for (name, certificate, why) in [
        ("another CA", Pki::new().server_cert(&names), "invalid peer certificate"),
        ("another name", pki.server_cert(&["api.test"]), "not valid for name"),
        ("expired", pki.server_cert_expiring(&names, an_hour_ago), "certificate expired"),
    ] {
        cluster.api.set_server_cert(&certificate)?;
        expect(name, &probe_of(&cluster, &[]).await?, 1, &[&tls[..], &[why]].concat())?;
    }
    cluster.api.set_server_cert(&pki.server_cert(&names))?;
    let node = "system:node:node-1";
    cluster.kubelet.rotate(&pki.client_cert_expiring(node, "system:nodes", an_hour_ago))?;
    let parts = ["401 Unauthorized", "check the credential"];
    expect("our own is expired", &probe_of(&cluster, &[]).await?, 1, &parts)?;
    cluster.api.demand_client_certs(&pki.server_cert(&names))?;
    let parts = ["CertificateExpired", "check certificate-authority"];
    expect("and refused at once", &probe_of(&cluster, &[]).await?, 1, &parts)
}

#[tokio::test]
async fn a_node_that_is_not_there() -> Result<()> {
    let cluster = Cluster::new()?;
    cluster.api.delete_node(NODE);
    let parts = ["there is no Node node-1 for this machine", "check", NAME];
    expect("gone", &probe_of(&cluster, &[]).await?, 1, &parts)
}

#[tokio::test]
async fn by_way_of_a_proxy() -> Result<()> {
    let cluster = Cluster::new()?;
    let tunnel = Tunnel::new().await?;
    let proxy = format!("http://user:s3cret%40x@{}", tunnel.address);
    let (good, bare) = (["Node node-1"], cluster.url.trim_start_matches("https://"));
    for variable in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        expect(variable, &probe_of(&cluster, &[(variable, &proxy)]).await?, 0, &good)?;
        let asked = tunnel.take();
        ensure!(asked.len() == 1, "{variable}: {asked:?}");
        let connect = format!("CONNECT {bare} HTTP/1.1\r\n");
        ensure!(asked.iter().all(|head| head.starts_with(&connect)), "{asked:?}");
        // user:s3cret@x
        ensure!(asked.iter().all(|head| head.contains("Basic dXNlcjpzM2NyZXRAeA==")), "{asked:?}");
    }
    for (variable, value) in
        [("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.0/8"), ("NO_PROXY", "x,*")]
    {
        let environment = [("HTTPS_PROXY", proxy.as_str()), (variable, value)];
        expect(variable, &probe_of(&cluster, &environment).await?, 0, &good)?;
    }
    expect("plain HTTP's", &probe_of(&cluster, &[("HTTP_PROXY", &proxy)]).await?, 0, &good)?;
    ensure!(tunnel.take().is_empty(), "it went by the proxy");
    let text = std::fs::read_to_string(cluster.kubelet.kubeconfig())?;
    let named = text.replace("    server: ", &format!("    proxy-url: {proxy}\n    server: "));
    cluster.kubelet.configure(&named)?;
    expect("named", &probe_of(&cluster, &[("NO_PROXY", "*")]).await?, 0, &good)?;
    ensure!(tunnel.take().len() == 1, "it did not go by the proxy");
    Ok(())
}

#[tokio::test]
async fn a_proxy_that_is_away_or_refuses() -> Result<()> {
    let cluster = Cluster::new()?;
    let away = [("HTTPS_PROXY", "http://user:s3cret@127.0.0.1:1")];
    let parts = ["check the address", "HTTPS_PROXY", "Connection refused"];
    expect("away", &probe_of(&cluster, &away).await?, 1, &parts)?;
    let tunnel = Tunnel::refusing().await?;
    let proxy = format!("http://user:s3cret@{}", tunnel.address);
    let parts = ["check the address", "HTTPS_PROXY"];
    expect("refuses", &probe_of(&cluster, &[("HTTPS_PROXY", &proxy)]).await?, 1, &parts)
}
