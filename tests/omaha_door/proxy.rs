//! Proxies from the environment.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use trident_acl_agent::omaha::{Client, Error};

use crate::harness::{PORT, check, locked, no_update, ok, read_request};

/// A proxy that notes where it was asked to connect to, on the port that the environment names.
async fn proxy() -> Arc<Mutex<Vec<String>>> {
    let port = std::env::var(PORT).expect("a port");
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("the proxy's port");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let notes = asked.clone();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.expect("a client");
            let request = read_request(&mut client).await.expect("a CONNECT");
            let target = request.head.split(' ').nth(1).expect("a target").to_owned();
            let mut server = TcpStream::connect(target.replace("localhost", "127.0.0.1"))
                .await
                .expect("the server");
            locked(&notes).push(request.head);
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("sent");
            tokio::spawn(async move {
                // Either side may leave.
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    asked
}

/// Each spelling of a variable is a test, for an environment belongs to a process.
macro_rules! by_proxy {
    ($($name:ident: $variables:expr;)+) => {$(
        lab_test!($name, $variables, async |lab| {
            let asked = proxy().await;
            check(lab.say([ok(&no_update())])).await.expect("an answer");
            assert!(locked(&asked)[0].starts_with("CONNECT localhost:"));
            assert_eq!((locked(&asked).len(), lab.seen().len()), (1, 1));
        });
    )+};
}

/// Nothing listens on the proxy's port: only straight does the answer come.
macro_rules! straight {
    ($($name:ident: $variables:expr;)+) => {$(
        lab_test!($name, $variables, async |lab| {
            check(lab.say([ok(&no_update())])).await.expect("an answer, straight");
        });
    )+};
}

by_proxy! {
    a_proxy_for_https_is_used: [("HTTPS_PROXY", "http://u:SECRET@127.0.0.1:PORT")];
    in_lower_case_too: [("https_proxy", "http://127.0.0.1:PORT")];
    a_proxy_for_all_is_used: [("ALL_PROXY", "http://127.0.0.1:PORT")];
    in_lower_case_that_too: [("all_proxy", "http://127.0.0.1:PORT")];
    that_for_https_goes_first:
        [("HTTPS_PROXY", "http://127.0.0.1:PORT"), ("ALL_PROXY", "http://127.0.0.1:1")];
    upper_case_goes_first:
        [("HTTPS_PROXY", "http://127.0.0.1:PORT"), ("https_proxy", "http://127.0.0.1:1")];
    an_exception_for_others_is_none_for_us:
        [("HTTPS_PROXY", "http://127.0.0.1:PORT"), ("NO_PROXY", "example.com,10.0.0.0/8")];
}

straight! {
    an_exception_is_honoured: [("HTTPS_PROXY", "http://127.0.0.1:PORT"), ("NO_PROXY", "localhost")];
    an_exception_in_lower_case_too:
        [("https_proxy", "http://127.0.0.1:PORT"), ("no_proxy", "example.com, localhost")];
    an_exception_for_all_is_honoured: [("ALL_PROXY", "http://127.0.0.1:PORT"), ("NO_PROXY", "*")];
    a_proxy_for_plain_http_is_not_ours: [("HTTP_PROXY", "http://127.0.0.1:PORT")];
    an_empty_proxy_is_none: [("HTTPS_PROXY", "")];
}

lab_test!(
    a_proxy_that_cannot_be_read_is_not_passed_over,
    [("https_proxy", "http://u:SECRET@127.0.0.1:port")],
    async |lab| {
        let error = Client::new(lab.settings()).expect_err("not straight");
        assert!(matches!(error, Error::Proxy { variable: "https_proxy" }), "{error:?}");
    }
);

lab_test!(
    a_proxy_that_is_away_tells_no_secret,
    [("HTTPS_PROXY", "http://u:SECRET@127.0.0.1:PORT")],
    async |lab| {
        let error = check(&lab).await.expect_err("no proxy");
        assert!(matches!(error, Error::Http { .. }), "{error:?}");
    }
);

lab_test!(
    a_proxy_that_wants_to_know_us_tells_no_secret,
    [("HTTPS_PROXY", "http://u:SECRET@127.0.0.1:PORT")],
    async |lab| {
        let port = std::env::var(PORT).expect("a port");
        let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("a port");
        let refuse = async {
            let (mut client, _) = listener.accept().await.expect("a client");
            read_request(&mut client).await.expect("a CONNECT");
            let answer = b"HTTP/1.1 407 Who are you\r\nproxy-authenticate: Basic\r\n\r\n";
            client.write_all(answer).await.expect("sent");
        };
        let (answer, ()) = tokio::join!(check(&lab), refuse);
        let error = answer.expect_err("not let through");
        assert!(matches!(error, Error::Http { .. }), "{error:?}");
        assert!(lab.seen().is_empty());
    }
);
