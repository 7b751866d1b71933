//! What an answer means for the next attempt.

use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use trident_acl_agent::contract::chain;
use trident_acl_agent::kubernetes::{Node, Retry, Seen};
use trident_lab::kube::{Fault, Verb};
use trident_lab::tls::Pki;

use super::*;

fn reply(status: u16, body: &'static str, headers: &[(&str, &str)]) -> Fault {
    let headers = headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Fault::Reply { status, headers, body: body.into() }
}

/// A refusal as the API server words it.
fn status(code: u16, body: &'static str) -> Fault {
    reply(code, body, &[("content-type", "application/json")])
}

/// How to go on, and after how many seconds, where the server names them.
type Next = (Retry, Option<u64>);

const LATER: Next = (Retry::Later, None);
const RECONNECT: Next = (Retry::Reconnect, None);
const REFUSED: Next = (Retry::Refused, None);

fn cases() -> Vec<(&'static str, Fault, Next, &'static str)> {
    let wait = |code| reply(code, "", &[("retry-after", "7")]);
    let busy = |value| reply(429, "Too many requests", &[("retry-after", value)]);
    let details = r#"{"kind":"Status","reason":"TooManyRequests","message":"slow down","code":429,
        "details":{"retryAfterSeconds":9}}"#;
    let negative = r#"{"kind":"Status","message":"x","details":{"retryAfterSeconds":-9}}"#;
    let control = r#"{"kind":"Status","reason":"A","message":"line\nline\u001b[31m"}"#;
    vec![
        ("401", Fault::Status(401), RECONNECT, ": 401 Unauthorized: Unauthorized"),
        ("403", Fault::Status(403), REFUSED, ": 403 Forbidden: nodes is forbidden"),
        ("404 of a web server", reply(404, "<html>", &[]), REFUSED, ": 404 Not Found"),
        ("409", Fault::Status(409), LATER, ": 409 Conflict"),
        ("413", Fault::Status(413), REFUSED, ": 413 "),
        ("422", Fault::Status(422), REFUSED, ": 422 "),
        ("429", Fault::Status(429), LATER, ": 429 TooManyRequests: Too many requests"),
        ("429 for a while", busy("7"), (Retry::Later, Some(7)), ": 429 Too Many Requests"),
        ("429 for too long", busy("86400"), (Retry::Later, Some(300)), ": 429"),
        ("429 for nonsense", busy("18446744073709551616"), LATER, ": 429"),
        ("429 for less than nothing", busy("-5"), LATER, ": 429"),
        ("429 for nothing", busy("0"), LATER, ": 429"),
        ("429 until a date", busy("Fri, 31 Dec 2099 23:59:59 GMT"), LATER, ": 429"),
        (
            "429 in its details",
            status(429, details),
            (Retry::Later, Some(9)),
            ": 429 TooManyRequests: slow down",
        ),
        ("negative details", status(429, negative), LATER, ": 429 Too Many Requests: x"),
        ("500", Fault::Status(500), LATER, ": 500 InternalError: Internal error occurred"),
        ("502", reply(502, "<html>s3cret</html>", &[]), LATER, ": 502 Bad Gateway"),
        (
            "503",
            reply(503, "", &[("retry-after", "3")]),
            (Retry::Later, Some(3)),
            ": 503 Service Unavailable",
        ),
        ("504", Fault::Status(504), LATER, ": 504 Timeout"),
        ("a status nobody knows", reply(599, "", &[]), LATER, ": 599 unknown"),
        (
            "a redirect",
            reply(302, "", &[("location", "https://s3cret.test")]),
            LATER,
            ": 302 Found",
        ),
        ("401 for a while", wait(401), (Retry::Reconnect, Some(7)), ": 401"),
        ("403 for a while", wait(403), (Retry::Refused, Some(7)), ": 403"),
        ("404 for a while", wait(404), (Retry::Refused, Some(7)), ": 404"),
        ("422 for a while", wait(422), (Retry::Refused, Some(7)), ": 422"),
        ("one line", status(500, control), LATER, ": 500 A: line line [31m"),
    ]
}

/// What comes instead of an answer of an API server's.
fn no_answers() -> Vec<(&'static str, Fault, Next, &'static str)> {
    vec![
        ("a sign-in page", reply(200, "<html>s3cret", &[]), RECONNECT, "none of an API server's"),
        (
            "a success without a Node",
            status(200, r#"{"kind":"Status","status":"Success","metadata":{}}"#),
            RECONNECT,
            "none of an API server's",
        ),
        (
            "another Node",
            status(200, r#"{"kind":"Node","metadata":{"name":"node-2","uid":"u"}}"#),
            RECONNECT,
            "none of an API server's",
        ),
        ("an empty answer", reply(200, "", &[]), RECONNECT, "none of an API server's"),
        ("a broken answer", Fault::Truncate(10), RECONNECT, "the answer broke off"),
        ("an endless answer", Fault::Huge(7 << 20), RECONNECT, "larger than 6291456 bytes"),
        ("a reset", Fault::Refuse, RECONNECT, "onnection"),
    ]
}

#[tokio::test]
async fn each_refusal_says_how_to_go_on() -> Result<()> {
    for (name, fault, retry, said) in cases().into_iter().chain(no_answers()) {
        let cluster = Cluster::new()?;
        let door = cluster.door(&[])?;
        let Seen::Node(node) = door.get().await? else { anyhow::bail!("no Node") };
        for verb in [Verb::Get, Verb::Patch] {
            cluster.api.inject(fault.clone().on(verb));
            let answer = match verb {
                Verb::Patch => door.annotate(&node, "example.com/a", "x").await,
                _ => door.get().await,
            };
            expect(&format!("{name} on {verb:?}"), answer, retry, said)?;
            cluster.api.clear_faults();
        }
    }
    Ok(())
}

fn expect(
    name: &str,
    answer: Result<Seen, KubeError>,
    (retry, seconds): Next,
    said: &str,
) -> Result<()> {
    let Err(error) = answer else { anyhow::bail!("{name}: {answer:?}") };
    let text = chain(&error);
    ensure!(text.contains(said), "{name}: {text}");
    ensure!(!text.contains("s3cret") && !text.contains('\n'), "{name}: {text}");
    ensure!(error.retry() == retry, "{name}: {:?}: {text}", error.retry());
    let asked = error.retry_after();
    ensure!(asked == seconds.map(Duration::from_secs), "{name}: {asked:?}: {text}");
    Ok(())
}

/// Else a Node that is there would count as gone.
#[tokio::test]
async fn what_is_no_list_is_no_empty_one() -> Result<()> {
    for body in [r#"{"kind":"Status","metadata":{}}"#, r#"{"metadata":{},"items":[]}"#] {
        let cluster = Cluster::new()?;
        let mut watch = cluster.door(&[])?.watch();
        cluster.api.inject(status(200, body).on(Verb::List));
        let heard = watch.next().await;
        let Err(error) = heard else { anyhow::bail!("{body}: {heard:?}") };
        ensure!(chain(&error).contains("none of an API server's"), "{body}: {error}");
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_cannot_be_reached() -> Result<()> {
    let cluster = Cluster::new()?;
    let deaf = TcpListener::bind("127.0.0.1:0")?;
    let plain = format!("https://{}", deaf.local_addr()?);
    deaf.set_nonblocking(true)?;
    let deaf = tokio::net::TcpListener::from_std(deaf)?;
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = deaf.accept().await {
            let _ =
                tokio::io::AsyncWriteExt::write_all(&mut peer, b"HTTP/1.1 400 Bad\r\n\r\n").await;
        }
    });
    for (name, server, said, tls) in [
        ("nobody listens", "https://127.0.0.1:1", "Connection refused", false),
        ("no such name", "https://api.invalid:6443", "dns error", false),
        ("it speaks no TLS", plain.as_str(), "", true),
    ] {
        let answer = cluster.door(&[("KUBERNETES_API_SERVER", server)])?.get().await;
        ensure!(answer.as_ref().is_err_and(|error| error.is_tls() == tls), "{name}: {answer:?}");
        expect(name, answer, RECONNECT, said)?;
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_cannot_be_trusted() -> Result<()> {
    let cluster = Cluster::new()?;
    let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
    let pki = &cluster.pki;
    for (name, certificate, said) in [
        ("another CA", Pki::new().server_cert(&["127.0.0.1"]), "invalid peer certificate"),
        ("another name", pki.server_cert(&["api.test"]), "not valid for name"),
        ("expired", pki.server_cert_expiring(&["127.0.0.1"], an_hour_ago), "certificate expired"),
    ] {
        cluster.api.set_server_cert(&certificate)?;
        let answer = cluster.read().await;
        ensure!(answer.as_ref().is_err_and(KubeError::is_tls), "{name}: {answer:?}");
        expect(name, answer, RECONNECT, said)?;
    }
    Ok(())
}

#[tokio::test]
async fn a_node_that_is_gone_is_no_error() -> Result<()> {
    let cluster = Cluster::new()?;
    let door = cluster.door(&[])?;
    cluster.api.delete_node(NODE);
    ensure!(door.get().await? == Seen::Gone);
    ensure!(door.annotate(&Node::default(), "example.com/a", "x").await? == Seen::Gone);
    Ok(())
}

#[tokio::test]
async fn a_node_of_another_machine_is_gone_in_either_case_of_letters() -> Result<()> {
    let cluster = Cluster::new()?;
    let theirs = "4C4C4544-0042-3510-8053-B4C04F4D3332";
    cluster.api.set_system_uuid(NODE, theirs);
    let check = [("KUBERNETES_VALIDATE_NODE_UUID", "true")];
    let other = "4c4c4544-0042-3510-8053-b4c04f4d3333".to_owned();
    let cases = [
        ("the same", &check[..], Some(theirs.to_owned()), true),
        ("in lower case", &check, Some(theirs.to_lowercase()), true),
        ("another", &check, Some(other.clone()), false),
        ("ours is not readable", &check, None, true),
        ("not checked", &[], Some(other.clone()), true),
    ];
    for (name, settings, ours, is_ours) in cases {
        let door = NodeApi::new(&cluster.config(settings)?, NODE, ours)?;
        let seen = door.get().await?;
        ensure!(matches!(seen, Seen::Node(_)) == is_ours, "{name}: {seen:?}");
    }
    for empty in ["", "  "] {
        cluster.api.set_system_uuid(NODE, empty);
        let door = NodeApi::new(&cluster.config(&check)?, NODE, Some(other.clone()))?;
        ensure!(matches!(door.get().await?, Seen::Node(_)), "theirs is empty");
    }
    Ok(())
}
