//! The affinity cookie, at the wire.

use std::fs;
use std::os::unix::fs::symlink;

use tokio::signal::unix::{SignalKind, signal};
use trident_acl_agent::omaha::{Check, Client, CookieJar, Event, Settings};

use crate::harness::{Say, Seen, http, no_update, offer, ok, reply, write};

lab_test!(the_first_checks_cookie_is_the_updates_cookie, async |lab| {
    let (app, client) = (lab.app().await, lab.client_with_cookies());
    write(&lab.jar_path(), b"old=0\n");
    let set = |value: &str, body: &str| {
        http(
            "200 OK",
            &format!("set-cookie: a={value}; Path=/; Secure\r\nset-cookie: b=2\r\n"),
            body,
        )
    };
    lab.say([set("1", &offer()), set("9", &reply("ok", "")), set("8", &no_update())]);
    client.check(&app, "1", Check::First).await.expect("an answer");
    client.report(&app, "1", &Event::DownloadStarted).await.expect("delivered");
    client.check(&app, "1", Check::Again).await.expect("an answer");
    // A later process, after the reboot.
    let client = lab.client_with_cookies();
    lab.say([ok(&reply("ok", "")), ok(&no_update()), ok(&reply("ok", ""))]);
    client.report(&app, "1", &Event::Installed).await.expect("delivered");
    client.check(&app, "1", Check::First).await.expect("an answer");
    client.report(&app, "1", &Event::Failed).await.expect("delivered");
    let seen = lab.seen();
    let cookies: Vec<Option<&str>> = seen.iter().map(Seen::cookie).collect();
    let kept = Some("a=1; b=2");
    assert_eq!(cookies, [None, kept, kept, kept, None, None]);
});

lab_test!(a_cookie_is_kept_from_any_whole_answer_but_from_no_failure, async |lab| {
    let (app, client) = (lab.app().await, lab.client_with_cookies());
    let set = "set-cookie: a=SECRET\r\n";
    let cut = format!("HTTP/1.1 200 OK\r\n{set}content-length: 9999\r\n\r\n<response>");
    let huge = format!("HTTP/1.1 200 OK\r\n{set}content-length: 9999999\r\n\r\n<response>");
    for (what, say, kept) in [
        ("no XML", http("200 OK", set, "not XML"), true),
        ("an empty body", http("200 OK", set, ""), true),
        ("a refusal", http("200 OK", set, reply("error-updatesDisabled", "")), true),
        ("an offer of no use", http("200 OK", set, offer().replace("sha384", "md5")), true),
        ("a failure", http("500 Oops", set, offer()), false),
        ("another success", http("201 Created", set, offer()), false),
        (
            "a redirect that is refused",
            http("302 Found", &format!("{set}location: /\r\n"), ""),
            false,
        ),
        ("a body that ends early", Say::BreakOff(cut.into_bytes()), false),
        ("a body that is too long", Say::BreakOff(huge.into_bytes()), false),
        ("no cookie", http("200 OK", "", "not XML"), false),
        (
            "one that is taken away",
            http("200 OK", "set-cookie: a=SECRET; Max-Age=0\r\n", offer()),
            false,
        ),
        (
            "one that is too long",
            http("200 OK", &format!("set-cookie: a={}\r\n", "x".repeat(9000)), offer()),
            false,
        ),
    ] {
        write(&lab.jar_path(), b"old=SECRET\n");
        lab.say([say]);
        // Whatever comes of it, it was the first.
        let _ = client.check(&app, "1", Check::First).await;
        assert_eq!(lab.jar_path().exists(), kept, "{what}");
    }
});

lab_test!(without_cookies_a_stored_one_is_left_alone, async |lab| {
    write(&lab.jar_path(), b"old=0\n");
    let before = fs::metadata(lab.jar_path()).expect("the jar").modified().expect("a time");
    let (app, client) = (lab.app().await, lab.client());
    let sets = |body: &str| http("200 OK", "set-cookie: a=1\r\n", body);
    lab.say([
        sets(&no_update()),
        sets(&no_update()),
        sets(&reply("ok", "")),
        sets(&reply("ok", "")),
    ]);
    client.check(&app, "1", Check::First).await.expect("an answer");
    client.check(&app, "1", Check::Again).await.expect("an answer");
    client.report(&app, "1", &Event::Failed).await.expect("delivered");
    client.probe(&app, "1").await.expect("known");
    assert!(lab.seen().iter().all(|one| one.cookie().is_none()));
    assert_eq!(fs::read(lab.jar_path()).expect("the jar"), b"old=0\n");
    let after = fs::metadata(lab.jar_path()).expect("the jar").modified().expect("a time");
    assert_eq!(before, after);
});

// Affinity is best effort: whatever is wrong with its file, the exchange goes on, without it.
lab_test!(trouble_with_the_file_is_only_a_warning, async |lab| {
    let app = lab.app().await;
    let directory = lab.directory.join("directory");
    fs::create_dir(&directory).expect("a directory");
    write(&lab.directory.join("host-secret"), b"SECRET");
    symlink(lab.directory.join("host-secret"), lab.directory.join("link")).expect("a link");
    write(&lab.directory.join("injection"), b"a=b\r\nInjected: yes\r\n");
    write(&lab.directory.join("garbage"), b"\xff\x00");
    for (path, kept) in [
        ("directory", false),
        ("missing/cookie", false),
        ("directory/..", false),
        ("link", true),
        ("injection", true),
        ("garbage", true),
    ] {
        let path = lab.directory.join(path);
        let cookies = Some(CookieJar::new(&path));
        let client = Client::new(Settings { cookies, ..lab.settings() }).expect("a client");
        lab.say([ok(&reply("ok", "")), http("200 OK", "set-cookie: a=SECRET\r\n", no_update())]);
        lab.say([ok(&reply("ok", ""))]);
        client.report(&app, "1", &Event::Failed).await.expect("delivered");
        client.check(&app, "1", Check::First).await.expect("an answer");
        client.report(&app, "1", &Event::Failed).await.expect("delivered");
        let cookies: Vec<_> =
            lab.seen().iter().rev().take(3).map(|one| one.cookie().is_some()).collect();
        assert_eq!(cookies, [kept, false, false], "{}", path.display());
        assert!(lab.seen().iter().all(|one| one.header("Injected").is_none()));
    }
    assert_eq!(fs::read(lab.directory.join("host-secret")).expect("a file"), b"SECRET");
});

// A full disk: the cookie that cannot be written is not half there, and the update goes on without.
lab_test!(a_full_disk_leaves_no_half_cookie, async |lab| {
    let (app, client) = (lab.app().await, lab.client_with_cookies());
    lab.say([http("200 OK", "set-cookie: a=SECRET\r\n", no_update()), ok(&reply("ok", ""))]);
    // Not deadly then: the write fails as on a full disk.
    let _too_large = signal(SignalKind::from_raw(25)).expect("a handler");
    rustix::process::setrlimit(
        rustix::process::Resource::Fsize,
        rustix::process::Rlimit { current: Some(0), maximum: Some(0) },
    )
    .expect("no file may grow");
    client.check(&app, "1", Check::First).await.expect("an answer");
    client.report(&app, "1", &Event::Failed).await.expect("delivered");
    assert!(!lab.jar_path().exists());
    assert_eq!(lab.seen()[1].cookie(), None);
});
