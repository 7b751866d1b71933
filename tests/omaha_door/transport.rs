//! One exchange: redirects, bodies, deadlines.

use trident_acl_agent::omaha::{Check, CheckAnswer, Client, Error, RedirectRefused, Settings};

use crate::harness::{SHORT, Say, check, http, no_update, ok, redirect, told};

lab_test!(a_redirect_that_keeps_the_method_is_followed, async |lab| {
    lab.say([
        redirect("307 Temporary Redirect", "/next"),
        redirect("308 Permanent Redirect", "/last"),
    ]);
    let answer = check(lab.say([ok(&no_update())])).await;
    assert_eq!(answer.expect("an answer"), CheckAnswer::NoUpdate);
    let seen = lab.seen();
    assert!(seen[2].head.starts_with("POST /last "), "{seen:?}");
    assert!(!seen[0].body.is_empty() && seen.iter().all(|one| one.body == seen[0].body));
    assert!(seen.iter().all(|one| !one.head.contains("referer")), "{seen:?}");
});

lab_test!(other_redirects_are_refused, async |lab| {
    for (say, expected) in [
        (redirect("301 Moved", "/SECRET"), RedirectRefused::MethodLost(301)),
        (redirect("302 Found", "https://h/SECRET"), RedirectRefused::MethodLost(302)),
        (redirect("303 See Other", "/SECRET"), RedirectRefused::MethodLost(303)),
        (redirect("307 Temporary Redirect", "http://h/SECRET"), RedirectRefused::NotHttps),
        (redirect("307 Temporary Redirect", "ftp://h/SECRET"), RedirectRefused::NotHttps),
    ] {
        let error = check(lab.say([say])).await.expect_err("refused");
        assert!(matches!(error, Error::Redirect { source, .. } if source == expected), "{error:?}");
    }
    let error = check(lab.say((0..6).map(|_| redirect("307 Again", "/SECRET")))).await;
    let error = error.expect_err("refused");
    let too_many = matches!(error, Error::Redirect { source: RedirectRefused::TooMany, .. });
    assert!(too_many, "{error:?}");
    let error = check(lab.say([http("307 Nowhere", "", "")])).await.expect_err("refused");
    assert!(matches!(error, Error::Status { status: 307, .. }), "{error:?}");
});

lab_test!(five_redirects_are_followed_and_no_loop, async |lab| {
    let again = || redirect("307 Temporary Redirect", "/again");
    lab.say((0..5).map(|_| again())).say([ok(&no_update())]);
    assert_eq!(check(&lab).await.expect("an answer"), CheckAnswer::NoUpdate);
    lab.say((0..3).flat_map(|_| [redirect("307 Go", "/a"), redirect("308 Back", "/b")]));
    let error = check(&lab).await.expect_err("a loop");
    assert!(matches!(error, Error::Redirect { source: RedirectRefused::TooMany, .. }), "{error:?}");
});

lab_test!(a_redirect_takes_no_secret_to_another_origin, async |lab| {
    let (here, there) = (lab.serve().await, lab.serve().await);
    let client = lab.client_with_cookies();
    let away = || redirect("307 Away", &format!("https://localhost:{}/v1/update", there.port()));
    let sets = |cookie: &str| http("200 OK", &format!("set-cookie: {cookie}\r\n"), no_update());
    let app = lab.app_at(here);
    lab.say([sets("ours=SECRET"), away(), ok(&no_update()), away(), sets("theirs=SECRET")]);
    lab.say([ok(&no_update())]);
    for which in [Check::First, Check::Again, Check::First, Check::Again] {
        client.check(&app, "1", which).await.expect("an answer");
    }
    let seen = lab.seen();
    let at = |port: u16| {
        let host = format!("localhost:{port}");
        seen.iter().filter(move |one| one.header("host") == Some(&host))
    };
    let cookies: Vec<_> = at(here.port()).map(|one| one.cookie()).collect();
    assert_eq!(cookies, [None, Some("ours=SECRET"), None, None], "what another sets is not ours");
    assert_eq!(at(there.port()).count(), 2);
    for one in at(there.port()) {
        assert!(one.cookie().is_none() && one.header("authorization").is_none(), "{one:?}");
        assert!(!one.head.contains("SECRET") && one.body.contains("<updatecheck/>"), "{one:?}");
    }
    assert!(at(here.port()).all(|one| one.header("authorization").is_some()), "the user's own");
});

lab_test!(a_body_is_bounded_and_whole, async |lab| {
    let whole = no_update();
    let answer = |headers: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\n{body}");
    let open = answer("connection: close", &whole);
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let chunks = format!("{}{}", chunk(&whole[..40]), chunk(&whole[40..]));
    let chunked = |body: &str| answer("transfer-encoding: chunked", body);
    let huge = answer("content-length: 10485760", &" ".repeat(1000));
    let (flood, cut, good) = ("AnswerTooLarge", "Http", "");
    for (what, say, expected) in [
        ("without an end", Say::Endless, flood),
        ("announced as 10 MiB, refused before it comes", Say::Hang(huge.into()), flood),
        ("1 MiB and a byte", ok(&" ".repeat(1024 * 1024 + 1)), flood),
        ("shorter than announced", Say::Bytes(answer("content-length: 9999", &whole).into()), cut),
        ("broken off", Say::BreakOff(open.clone().into()), cut),
        ("broken off within a chunk", Say::Bytes(chunked("ff\r\n<resp").into()), cut),
        ("broken off between chunks", Say::Bytes(chunked(&chunks).into()), cut),
        ("a chunk without a length", Say::Bytes(chunked("x\r\n").into()), cut),
        ("no HTTP at all", Say::Bytes(b"220 mail.example ESMTP\r\n".to_vec()), cut),
        ("too many headers", http("200 OK", &"x: y\r\n".repeat(9999), &whole), cut),
        ("closed in good order", Say::Bytes(open.into()), good),
        ("in chunks", Say::Bytes(chunked(&format!("{chunks}0\r\n\r\n")).into()), good),
        ("1 MiB", ok(&format!("{whole}{}", " ".repeat(1024 * 1024 - whole.len()))), good),
    ] {
        match check(lab.say([say])).await {
            Ok(answer) => assert!(expected == good && answer == CheckAnswer::NoUpdate, "{what}"),
            Err(error) => {
                let error = format!("{error:?}");
                assert!(expected != good && error.starts_with(expected), "{what}: {error}");
            }
        }
    }
});

/// The bytes of an answer that says that there is no update, compressed.
const COMPRESSED: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\x02\x03\xb3\x29\x4a\x2d\x2e\xc8\xcf\x2b\x4e\xb5\xb3\x49\x2c\
    \x28\x50\0\xe2\xcc\x14\x5b\xa5\xfc\xd2\xa2\x62\x25\x85\xe2\x92\xc4\x92\xd2\x62\x20\x2f\x5b\xc9\xce\xa6\xb4\
    \x20\x25\xb1\x24\x35\x39\x23\x35\x39\x1b\x2e\x91\x97\x0f\x11\x55\xd2\xb7\xb3\xd1\x07\x6a\x05\x92\x70\xe3\0\
    \xc7\xff\x43\x40\x59\0\0\0";

lab_test!(nothing_is_ever_decompressed, async |lab| {
    for encoding in ["gzip", "x-gzip", "deflate", "br", "zstd"] {
        let headers = format!("content-encoding: {encoding}\r\ncontent-type: text/xml\r\n");
        let error = check(lab.say([http("200 OK", &headers, COMPRESSED)])).await;
        let error = error.expect_err("not read");
        assert!(matches!(error, Error::Malformed { .. }), "{encoding}: {error:?}");
        assert_eq!(lab.seen().last().and_then(|one| one.header("accept-encoding")), None);
    }
});

// Proxies and front ends change it, and the parser is strict: the body alone says what it is.
lab_test!(the_content_type_does_not_matter, async |lab| {
    for value in ["", "text/html", "application/json", "text/xml; charset=utf-16", "image/png"] {
        let headers = format!("content-type: {value}\r\n");
        let answer = check(lab.say([http("200 OK", &headers, no_update())])).await;
        assert_eq!(answer.expect(value), CheckAnswer::NoUpdate);
    }
    let error = check(lab.say([http("200 OK", "content-type: text/xml\r\n", "hello")])).await;
    assert!(matches!(error, Err(Error::Malformed { .. })));
});

lab_test!(a_server_may_have_an_ipv6_address, async |lab| {
    let app = lab.app_at(lab.serve_at("[::1]:0").await);
    lab.say([ok(&no_update())]);
    let answer = lab.client().check(&app, "1", Check::First).await.expect("an answer");
    assert_eq!(answer, CheckAnswer::NoUpdate);
    assert!(lab.seen()[0].header("host").is_some_and(|host| host.starts_with("[::1]:")));
    assert!(app.server.to_string().starts_with("https://[::1]:"), "{}", app.server);
});

lab_test!(one_deadline_holds_for_the_whole_exchange, async |lab| {
    let app = lab.app().await;
    let settings = Settings { deadline: SHORT, ..lab.settings() };
    let client = Client::new(settings).expect("a client");
    for begun in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\n\r\n<response>"] {
        lab.say([Say::Hang(begun.into())]);
        let error = client.check(&app, "1", Check::Again).await.expect_err("no end");
        told(&error);
        assert!(matches!(error, Error::TimedOut { after: SHORT, .. }), "{error:?}");
    }
});
