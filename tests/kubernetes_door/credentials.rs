//! Each way to say in a kubeconfig where the API server is and who asks.

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use trident_acl_agent::contract::chain;
use trident_acl_agent::kubernetes::Seen;
use trident_lab::kube::User;
use trident_lab::tls::Pki;

use super::*;

/// A kubeconfig: what stands in its cluster and its user, and the context in force.
fn text(cluster: &str, user: &str, context: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\n\
         clusters:\n- name: here\n  cluster: {{ {cluster} }}\n\
         - name: elsewhere\n  cluster: {{ server: 'https://127.0.0.1:1' }}\n\
         users:\n- name: kubelet\n  user: {{ {user} }}\n\
         contexts:\n- name: other\n  context: {{ cluster: elsewhere, user: kubelet }}\n\
         - name: good\n  context: {{ cluster: here, user: kubelet }}\n\
         - name: no-cluster\n  context: {{ cluster: nowhere, user: kubelet }}\n\
         - name: no-user\n  context: {{ cluster: here, user: nobody }}\n\
         current-context: {context}\n"
    )
}

const BOM: char = '\u{feff}';
const BEGIN: &str = "-----BEGIN CERTIFICATE-----\n";

struct Forms {
    server: String,
    ca: String,
    login: String,
    token: &'static str,
}

impl Forms {
    fn new(cluster: &Cluster) -> Result<Self> {
        let leaf = cluster.pki.kubelet_cert(NODE);
        let good = STANDARD.encode(cluster.pki.ca_pem());
        let other = Pki::new().ca_pem();
        let stray = cluster.pki.kubelet_cert(NODE).key_pem;
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (name, text) in [
            ("cert.pem", leaf.cert_pem.as_str()),
            ("key.pem", &leaf.key_pem),
            ("stray.pem", &stray),
            ("bundle.pem", &format!("{other}{broken}{}", cluster.pki.ca_pem())),
            ("endless.pem", &format!("{BOM}{BEGIN}AAAA\n{}", cluster.pki.ca_pem())),
            ("other.pem", &other),
            ("broken.pem", broken),
            ("token", "s3cret\n"),
            ("bad-token", "s3c\nret"),
        ] {
            cluster.kubelet.write(name, text)?;
        }
        cluster.api.set_token("s3cret", Some(User::node(NODE)));
        Ok(Self {
            server: format!("server: '{}'", cluster.url),
            ca: format!("certificate-authority-data: {good}"),
            login: format!(
                "client-certificate-data: {}, client-key-data: {}",
                STANDARD.encode(&leaf.cert_pem),
                STANDARD.encode(&leaf.key_pem)
            ),
            token: "token: s3cret",
        })
    }
}

#[tokio::test]
async fn every_form_that_leads_to_the_api_server() -> Result<()> {
    let cluster = Cluster::new()?;
    let Forms { server, ca, login, token } = Forms::new(&cluster)?;
    let here = format!("{server}, {ca}");
    let absolute = cluster.kubelet.path("cert.pem").display().to_string();
    let cases = [
        ("certificate and key inline", here.clone(), login.clone()),
        (
            "in files beside it",
            here.clone(),
            "client-certificate: cert.pem, client-key: key.pem".into(),
        ),
        (
            "by a whole path",
            here.clone(),
            format!("client-certificate: {absolute}, client-key: ./key.pem"),
        ),
        (
            "inline before a file",
            here.clone(),
            format!("{login}, client-certificate: missing, client-key: missing"),
        ),
        ("a token", here.clone(), token.into()),
        ("a token with a newline", here.clone(), "token: \"s3cret\\n\"".into()),
        ("a token in a file", here.clone(), "tokenFile: token".into()),
        ("the file before the token", here.clone(), "token: old, tokenFile: token".into()),
        ("the token where there is no file", here.clone(), format!("{token}, tokenFile: missing")),
        ("a CA in a file", format!("{server}, certificate-authority: pki/ca.crt"), token.into()),
        ("a CA in a bundle", format!("{server}, certificate-authority: bundle.pem"), token.into()),
        (
            "a CA behind one without an end",
            format!("{server}, certificate-authority: endless.pem"),
            token.into(),
        ),
        ("no CA is asked", format!("{server}, insecure-skip-tls-verify: true"), token.into()),
        ("another name", format!("{here}, tls-server-name: kubernetes.default.svc"), token.into()),
        ("a slash behind", format!("server: '{}/', {ca}", cluster.url), token.into()),
    ];
    expect_node(&cluster, &cases).await
}

#[tokio::test]
async fn what_is_empty_is_not_there() -> Result<()> {
    let cluster = Cluster::new()?;
    let Forms { server, ca, token, .. } = Forms::new(&cluster)?;
    let here = format!("{server}, {ca}");
    let cases = [
        (
            "a token and nothing else",
            format!("{here}, certificate-authority: '', tls-server-name: '', proxy-url: ''"),
            format!(
                "{token}, tokenFile: '', username: '', password: '', client-certificate: '', \
                 client-key: '', client-certificate-data: '', client-key-data: ''"
            ),
        ),
        (
            "a file and no data",
            format!("{server}, certificate-authority: pki/ca.crt, certificate-authority-data: ''"),
            "client-certificate: cert.pem, client-key: key.pem, client-certificate-data: '', \
             client-key-data: '', token: ''"
                .into(),
        ),
    ];
    expect_node(&cluster, &cases).await
}

async fn expect_node(cluster: &Cluster, cases: &[(&str, String, String)]) -> Result<()> {
    for (name, cluster_text, user) in cases {
        cluster.kubelet.configure(&text(cluster_text, user, "good"))?;
        match cluster.read().await {
            Ok(Seen::Node(_)) => {}
            Ok(other) => anyhow::bail!("{name}: {other:?}"),
            Err(error) => anyhow::bail!("{name}: {}", chain(&error)),
        }
    }
    Ok(())
}

#[tokio::test]
async fn logins_that_cannot_be_used() -> Result<()> {
    let cluster = Cluster::new()?;
    let Forms { server, ca, login, .. } = Forms::new(&cluster)?;
    let exec = "exec: { apiVersion: client.authentication.k8s.io/v1, command: touch, args: [ran] }";
    let half = login.split(", ").next().unwrap_or_default();
    let cases = [
        (exec, "logs in by an exec plugin, which is not supported"),
        ("auth-provider: { name: gcp, config: {} }", "logs in by an auth-provider"),
        ("username: u, password: s3cret", "logs in by user name and password"),
        (half, "a client certificate without a key"),
        ("client-key: key.pem", "or a key without a certificate"),
        ("client-certificate: cert.pem, client-key: stray.pem", "cannot set up a client"),
        ("client-certificate: cert.pem, client-key: missing", "cannot read its client-key"),
        ("client-certificate: missing, client-key: key.pem", "cannot read its client-certificate"),
        ("tokenFile: missing", "cannot read its tokenFile"),
        ("tokenFile: bad-token", "its token holds a character"),
        ("token: \"s3c\\nret\"", "its token holds a character"),
        ("token: s3cret-but-old", "401 Unauthorized"),
        // Who shows nothing is somebody, too.
        ("", "User \"system:anonymous\" cannot get resource"),
    ];
    for (user, expected) in cases {
        cluster.kubelet.configure(&text(&format!("{server}, {ca}"), user, "good"))?;
        expect_refusal(&cluster, user, expected).await?;
    }
    ensure!(!cluster.kubelet.path("ran").exists(), "the plugin was run");
    Ok(())
}

#[tokio::test]
async fn servers_that_cannot_be_used() -> Result<()> {
    let cluster = Cluster::new()?;
    let Forms { server, ca, token, .. } = Forms::new(&cluster)?;
    let authority = |name: &str| format!("{server}, certificate-authority: {name}");
    let with = |more: &str| format!("{server}, {ca}, {more}");
    let cases = [
        (authority("missing"), "cannot read its certificate-authority"),
        (authority("token"), "its certificate-authority holds no certificate"),
        (authority("broken.pem"), "its certificate-authority holds no certificate"),
        (authority("other.pem"), "invalid peer certificate"),
        (
            format!("{server}, certificate-authority-data: '?'"),
            "certificate-authority is no base64",
        ),
        (server.clone(), "invalid peer certificate"),
        (with("tls-server-name: other.test"), "not valid for name \"other.test\""),
        (with("proxy-url: 'socks5://u:s3cret@p.test'"), "must be an http:// one, not socks5://"),
        (ca.clone(), "its cluster has no server"),
        (format!("server: '', {ca}"), "its cluster has no server"),
        (format!("server: 'https://api.test:99999', {ca}"), "no http or https URL"),
        (format!("server: 'api.test:6443', {ca}"), "no http or https URL"),
        (format!("server: 'unix:///run/s', {ca}"), "no http or https URL"),
    ];
    for (cluster_text, expected) in cases {
        cluster.kubelet.configure(&text(&cluster_text, token, "good"))?;
        expect_refusal(&cluster, expected, expected).await?;
    }
    Ok(())
}

#[tokio::test]
async fn files_and_contexts_that_cannot_be_used() -> Result<()> {
    let cluster = Cluster::new()?;
    let Forms { server, ca, token, .. } = Forms::new(&cluster)?;
    let of = |context: &str| text(&format!("{server}, {ca}"), token, context);
    let cases = [
        (of("no-cluster"), "it has no cluster \"nowhere\""),
        (of("no-user"), "it has no user \"nobody\""),
        (of("unknown"), "it has no context \"unknown\""),
        (of("''"), "it has no current-context"),
        (of("other"), "Connection refused"),
        (String::new(), "it has no current-context"),
        ("a: [s3cret".to_owned(), "cannot use the kubeconfig"),
        ("- s3cret\n- b\n".to_owned(), "it is YAML, but no kubeconfig"),
    ];
    for (text, expected) in cases {
        cluster.kubelet.configure(&text)?;
        expect_refusal(&cluster, expected, expected).await?;
    }
    Ok(())
}

async fn expect_refusal(cluster: &Cluster, name: &str, expected: &str) -> Result<()> {
    let Err(error) = cluster.read().await else {
        anyhow::bail!("{name}: taken");
    };
    let said = chain(&error);
    ensure!(said.contains(expected), "{name}: {said}");
    ensure!(!said.contains("s3cret"), "{name} tells a secret: {said}");
    Ok(())
}

#[tokio::test]
async fn the_server_of_the_settings_wins() -> Result<()> {
    let cluster = Cluster::new()?;
    let Forms { ca, token, .. } = Forms::new(&cluster)?;
    cluster.kubelet.configure(&text(&ca, token, "good"))?;
    let seen = cluster.door(&[("KUBERNETES_API_SERVER", &cluster.url)])?.get().await?;
    ensure!(matches!(seen, Seen::Node(_)), "{seen:?}");
    Ok(())
}

#[tokio::test]
async fn an_ipv6_server() -> Result<()> {
    let cluster = Cluster::on("[::1]:0")?;
    ensure!(cluster.url.starts_with("https://[::1]:"));
    ensure!(matches!(cluster.read().await?, Seen::Node(_)));
    Ok(())
}

#[tokio::test]
async fn what_changes_makes_it_outdated() -> Result<()> {
    let cluster = Cluster::new()?;
    let door = cluster.door(&[])?;
    ensure!(!door.is_outdated());
    let before = std::fs::read_to_string(cluster.kubelet.kubeconfig())?;
    cluster.kubelet.configure(&format!("{before}# changed\n"))?;
    ensure!(door.is_outdated(), "the kubeconfig");
    cluster.kubelet.configure("half a")?;
    ensure!(!door.is_outdated(), "one that cannot be read is being replaced");
    cluster.kubelet.configure(&before)?;
    ensure!(!door.is_outdated(), "what it was");
    cluster.kubelet.rotate(&cluster.pki.kubelet_cert(NODE))?;
    ensure!(door.is_outdated(), "the certificate");
    let door = cluster.door(&[])?;
    cluster.kubelet.write("pki/ca.crt", format!("{}\n", cluster.pki.ca_pem()))?;
    ensure!(door.is_outdated(), "the CA");
    Ok(())
}
