//! The affinity cookie through an update: whose it is, how long it lives, where it stands.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use trident_acl_agent::contract::{Code, Operation};
use trident_acl_agent::operate::Ended;
use trident_lab::lab::{APP, Request, TRACK};
use trident_lab::nebraska::{Cookies, Fault, Nebraska, Verb};
use trident_lab::trident::{Method, Script};
use uuid::Uuid;

use crate::bench::{Bench, package};

fn sent(nebraska: &Nebraska) -> Vec<Option<String>> {
    nebraska.requests().into_iter().map(|it| it.cookie).collect()
}

bench_test!(the_first_checks_cookie_lives_until_the_completion, async |mut bench| {
    bench.set("ORCHESTRATION_COOKIE_ENABLED", "true");
    let file = bench.directory.join("cookie");
    fs::write(&file, "old=1\n").unwrap();
    // Each answer sets another one: only the first counts.
    bench.nebraska.set_cookies(Cookies::Always);
    bench.update().await;
    let first = bench.nebraska.cookies_set()[0].clone();
    let sent = sent(&bench.nebraska);
    let kept = Some(first.as_str());
    let sent: Vec<_> = sent.iter().map(Option::as_deref).collect();
    assert_eq!(sent, [None, kept, kept, kept, kept]);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
    assert!(fs::read_to_string(&file).unwrap().starts_with(&first));
    let state = fs::read_to_string(bench.directory.join("state.json")).unwrap();
    assert!(!state.contains(&first), "it is kept apart from the state");
});

bench_test!(off_it_is_neither_sent_nor_touched, async |bench| {
    let file = bench.directory.join("cookie");
    fs::write(&file, "old=1\n").unwrap();
    bench.nebraska.set_cookies(Cookies::Always);
    bench.update().await;
    assert!(sent(&bench.nebraska).iter().all(Option::is_none));
    assert_eq!(fs::read_to_string(&file).unwrap(), "old=1\n");
});

bench_test!(without_a_cookie_from_the_first_answer_there_is_none, async |mut bench| {
    bench.set("ORCHESTRATION_COOKIE_ENABLED", "true");
    fs::write(bench.directory.join("cookie"), "old=1\n").unwrap();
    let update = Uuid::new_v4();
    bench.carry_out_well(&bench.request_of(update, Operation::Stage)).await;
    bench.nebraska.set_cookies(Cookies::Always);
    bench.report().await.expect("all is delivered");
    bench.carry_out_well(&bench.request_of(update, Operation::Finalize)).await;
    bench.report().await.expect("all is delivered");
    assert_eq!(sent(&bench.nebraska), [None, None, None, None]);
    assert!(!bench.directory.join("cookie").exists());
});

/// A process that dies while tridentd is at work for it.
async fn die(bench: &Bench, request: &Request, method: Method) {
    let gate = bench.trident.hold(method, Script::new());
    bench.accept(request);
    tokio::select! {
        ended = bench.start(request) => panic!("it waits for tridentd: {ended:?}"),
        () = gate.reached() => {}
    }
    let count = bench.trident.calls_of(method).len();
    gate.release();
    bench.trident.wait_ended(method, count, trident_lab::lab::SOON).await.expect("it goes on");
}

bench_test!(a_stage_that_starts_again_starts_fresh_and_the_rest_keeps_it, async |mut bench| {
    bench.set("ORCHESTRATION_COOKIE_ENABLED", "true");
    bench.nebraska.set_cookies(Cookies::Always);
    let update = Uuid::new_v4();
    let stage = bench.request_of(update, Operation::Stage);
    die(&bench, &stage, Method::UpdateStage).await;
    let before = bench.nebraska.requests().len();
    bench.start(&stage).await.expect("an outcome");
    assert_eq!(bench.status(&stage).code, Code::Success);
    bench.report().await.expect("all is delivered");
    let finalize = bench.request_of(update, Operation::Finalize);
    die(&bench, &finalize, Method::UpdateFinalize).await;
    bench.start(&finalize).await.expect("an outcome");
    assert_eq!(bench.status(&finalize).code, Code::Success);
    bench.report().await.expect("all is delivered");
    bench.reboot();
    // tridentd is away at the first attempt.
    bench.trident.stop(trident_lab::trident::InFlight::Abort);
    bench.set("ORCHESTRATION_FINALIZE_TIMEOUT", "1s");
    bench.commit().await.expect_err("nobody is there");
    bench.trident.start().unwrap();
    assert_eq!(bench.commit().await.unwrap(), Ended::With(Code::Success));
    bench.report().await.expect("all is delivered");
    let cookies = sent(&bench.nebraska).split_off(before);
    assert_eq!(cookies[0], None, "the same request ids, and yet a fresh start");
    let mine = cookies[1].clone().expect("the cookie of the second attempt");
    assert!(cookies[1..].iter().all(|it| it.as_ref() == Some(&mine)), "{cookies:?}");
    let set = bench.nebraska.cookies_set();
    assert_eq!(set[before..][0], mine);
});

bench_test!(a_cookie_is_told_to_its_own_server_alone, async |mut bench| {
    bench.set("ORCHESTRATION_COOKIE_ENABLED", "true");
    bench.nebraska.set_cookies(Cookies::Always);
    let (other, server) = bench.other_nebraska();
    other.add_package(APP, TRACK, package());
    // What the first update owes its server is told after the second has begun at another.
    bench.nebraska.inject(Fault::Refuse.on(Verb::Omaha).after(1).times(2));
    let first = bench.request(Operation::Stage);
    bench.trident.next(Method::UpdateStage, Script::new().fail_bare());
    assert_eq!(bench.carry_out(&first).await.code, Code::OperationFailed);
    let ours = bench.nebraska.cookies_set()[0].clone();
    other.set_cookies(Cookies::Always);
    bench.carry_out_well(&bench.request(Operation::Stage).with("server", server.into())).await;
    bench.nebraska.clear_faults();
    bench.report().await.expect("all is delivered");
    let theirs = other.cookies_set()[0].clone();
    let both = [sent(&bench.nebraska), sent(&other)];
    assert!(both[0].iter().flatten().all(|it| *it == ours), "{both:?}");
    assert!(
        both[1].len() > 2 && both[1][1..].iter().all(|it| it.as_ref() == Some(&theirs)),
        "{both:?}"
    );
});

bench_test!(trouble_with_the_file_fails_no_update, async |mut bench| {
    bench.set("ORCHESTRATION_COOKIE_ENABLED", "true");
    bench.nebraska.set_cookies(Cookies::Always);
    fs::create_dir(bench.directory.join("cookie")).unwrap();
    bench.update().await;
    assert!(sent(&bench.nebraska).iter().all(Option::is_none));
});
