//! What the server says, and what is made of it.

use std::fs;
use std::time::Duration;

use trident_acl_agent::omaha::{
    CheckAnswer, Error, Event, PreviousVersion, ReportError, Retry, XmlError,
};

use crate::harness::{check, http, offer, ok, reply, told, write};

lab_test!(an_offer_is_taken_from_the_answer_for_our_app, async |lab| {
    let answer = check(lab.say([ok(&offer())])).await.expect("an answer");
    assert!(!format!("{answer:?}").contains("SECRET"), "{answer:?}");
    let CheckAnswer::Offer(offer) = answer else { panic!("{answer:?}") };
    assert_eq!(offer.version, "2.0.0");
    assert_eq!(offer.url.as_str(), "https://h/p/i.cosi?sig=SECRET");
    assert_eq!(offer.sha384, "ab".repeat(48));
    let seen = lab.seen();
    assert!(seen[0].head.starts_with("POST /SECRET?q=SECRET HTTP/1.1"), "{seen:?}");
    assert!(seen[0].head.contains("content-type: text/xml"), "{seen:?}");
    assert!(!seen[0].head.contains("accept-encoding"), "{seen:?}");
    assert_eq!(seen[0].cookie(), None);
    assert!(seen[0].body.contains("<updatecheck/>") && !seen[0].body.contains("<ping"));
    assert!(seen[0].body.contains(r#"track="stable""#) && !seen[0].body.contains("<event"));
    assert!(!lab.jar_path().exists());
});

lab_test!(an_answer_that_is_none_is_named, async |lab| {
    for (body, expected) in [
        ("", XmlError::Empty),
        ("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", XmlError::Empty),
        ("<!DOCTYPE html><html>Sign in, SECRET</html>", XmlError::Entity),
        ("<html><body>Sign in</body></html>", XmlError::NotAResponse),
        ("<response><app appid='ours' status='ok'>", XmlError::Incomplete),
        ("\u{1f}\u{8b}compressed", XmlError::NotAResponse),
    ] {
        let error = check(lab.say([ok(body)])).await.expect_err(body);
        let Error::Malformed { source, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*source, expected, "{body}");
        assert_eq!(error.retry(), Retry::Later { after: None });
    }
    let error = check(lab.say([ok("<response/>")])).await.expect_err("no app");
    assert!(matches!(error, Error::AppMissing { .. }), "{error:?}");
    let broken = offer().replace(&"ab".repeat(48), "SECRET");
    let error = check(lab.say([ok(&broken)])).await.expect_err("a bad offer");
    assert!(matches!(error, Error::Offer { .. }), "{error:?}");
    assert_eq!(error.retry(), Retry::Never);
});

lab_test!(any_other_status_is_an_error_that_keeps_retry_after, async |lab| {
    let later = |seconds| Retry::Later { after: Some(Duration::from_secs(seconds)) };
    for (status, headers, retry) in [
        ("503 Later", "retry-after: 30\r\n", later(30)),
        ("429 Slow down", "retry-after: 999999\r\n", later(3600)),
        ("500 Oops", "", Retry::Later { after: None }),
        ("404 Not Found", "", Retry::Never),
        ("204 No Content", "", Retry::Never),
        ("201 Created", "", Retry::Never),
    ] {
        let say = http(status, headers, if status.starts_with("204") { "" } else { "<response/>" });
        let error = check(lab.say([say])).await.expect_err(status);
        assert!(matches!(error, Error::Status { .. }), "{error:?}");
        assert_eq!(error.retry(), retry, "{status}");
    }
});

lab_test!(an_event_counts_as_delivered_only_when_the_app_status_is_ok, async |lab| {
    let (app, client) = (lab.app().await, lab.client());
    let previous_version = PreviousVersion::try_from("0.9.0".to_owned()).expect("a version");
    let complete = Event::Complete { previous_version };
    let event = r#"<event status="ok"/>"#;
    lab.say([
        ok(&reply("ok", event)),
        ok(&reply("error-unknownApplicationOrGroup", event)),
        ok("<?xml version=\"1.0\"?>"),
    ]);
    client.report(&app, "1.0.0", &complete).await.expect("delivered");
    let error = client.report(&app, "1.0.0", &Event::Failed).await.expect_err("not taken");
    told(&error);
    assert!(
        matches!(&error, ReportError::NotTaken { status, .. } if status.contains("unknownApp"))
    );
    assert_eq!(error.retry(), Retry::Later { after: None });
    let error = client.report(&app, "1.0.0", &Event::Failed).await.expect_err("no answer");
    assert!(matches!(error, ReportError::Request(Error::Malformed { .. })), "{error:?}");
    let seen = lab.seen();
    let pair = r#"<event eventtype="3" eventresult="2" previousversion="0.9.0"/>"#;
    assert!(seen[0].body.contains(pair), "{seen:?}");
    assert!(seen[0].body.contains(r#"<ping active="1"/><updatecheck/>"#), "{seen:?}");
    assert!(!seen[1].body.contains("<ping") && !seen[1].body.contains("<updatecheck"));
});

lab_test!(a_probe_is_a_bare_app, async |lab| {
    let (app, client) = (lab.app().await, lab.client_with_cookies());
    write(&lab.jar_path(), b"kept=1\n");
    lab.say([http("200 OK", "set-cookie: new=2\r\n", reply("ok", "")), ok(&reply("error-x", ""))]);
    client.probe(&app, "1.0.0").await.expect("known");
    let error = client.probe(&app, "1.0.0").await.expect_err("not known");
    assert!(matches!(&error, Error::AppRefused { status, .. } if status == "error-x"), "{error:?}");
    let seen = lab.seen();
    for child in ["<event", "<ping", "<updatecheck"] {
        assert!(!seen[0].body.contains(child), "{seen:?}");
    }
    assert_eq!(seen[0].cookie(), Some("kept=1"));
    assert_eq!(fs::read(lab.jar_path()).expect("the jar"), b"kept=1\n");
});
