//! Events: which, when, in what order, and that they stand in nobody's way.

use std::time::{Duration, Instant};

use serde_json::json;
use trident_acl_agent::contract::{Code, Operation, Phase, Request as Wanted};
use trident_acl_agent::operate::{Ended, OperateError};
use trident_acl_agent::state::{EventKind, OwedEvent};
use trident_lab::lab::{APP, NEW, OLD, TRACK};
use trident_lab::nebraska::{Fault, InstanceStatus, Verb};
use trident_lab::trident::{Method, Script};
use uuid::Uuid;

use crate::bench::{Bench, eventually};

/// Far less than the 30 s of one exchange, far more than any operation here takes by itself.
const AT_ONCE: Duration = Duration::from_secs(12);

bench_test!(an_update_is_told_of_step_by_step, async |bench| {
    bench.update().await;
    assert_eq!(bench.said(), ["check", "13,1", "14,1", "800,1", "3,2+ping+check"]);
    let requests = bench.nebraska.requests();
    for request in &requests {
        let app = request.app().expect("an app");
        assert_eq!((app.app_id(), app.track()), (APP, TRACK), "{}", request.raw);
        assert_eq!(app.machine_id(), Bench::machine(), "{}", request.raw);
        assert_eq!(request.os_version(), Some(app.version()), "{}", request.raw);
        assert!(!request.attributes.contains_key("installsource"), "{}", request.raw);
    }
    let versions: Vec<_> =
        requests.iter().filter_map(|it| it.app()).map(|it| it.version()).collect();
    assert_eq!(versions, [OLD, OLD, OLD, OLD, NEW], "the version that ran at each step");
    let done = requests.last().and_then(|it| it.app()).expect("an app");
    assert_eq!(done.events[0].previous_version.as_deref(), Some(OLD));
    assert!(bench.nebraska.dropped_events().is_empty(), "the server took each at its word");
    let instance = bench.nebraska.instance(&Bench::machine()).expect("an instance");
    assert_eq!((instance.status, instance.version.as_str()), (InstanceStatus::Complete, NEW));
});

bench_test!(each_failure_of_an_update_releases_the_instance, async |bench| {
    for (method, steps) in [
        (Method::UpdateStage, &["check", "13,1", "3,0"][..]),
        (Method::UpdateFinalize, &["check", "13,1", "14,1", "3,0"]),
        (Method::Commit, &["check", "13,1", "14,1", "800,1", "3,0"]),
    ] {
        let (update, before) = (Uuid::new_v4(), bench.said().len());
        bench.trident.next(method, Script::new().fail_bare());
        for operation in [Operation::Stage, Operation::Finalize] {
            let status = bench.carry_out(&bench.request_of(update, operation)).await;
            bench.report().await.expect("all is delivered");
            if status.code != Code::Success {
                break;
            }
        }
        bench.reboot();
        bench.commit().await.expect("an outcome");
        bench.report().await.expect("all is delivered");
        assert_eq!(bench.said()[before..], *steps, "{method:?}");
        let instance = bench.nebraska.instance(&Bench::machine()).expect("an instance");
        assert_eq!(instance.status, InstanceStatus::Error, "{method:?}");
    }
});

bench_test!(a_rollback_tells_nothing, async |bench| {
    bench.update().await;
    let before = bench.said();
    bench.carry_out_well(&bench.request(Operation::Rollback)).await;
    bench.reboot();
    assert_eq!(bench.commit().await.unwrap(), Ended::With(Code::Success));
    // The second is refused: there is nothing to go back to.
    bench.carry_out(&bench.request(Operation::Rollback)).await;
    bench.report().await.expect("nothing is owed");
    assert_eq!(bench.said(), before);
});

bench_test!(a_server_that_goes_silent_delays_and_fails_nothing, async |bench| {
    let begun = Instant::now();
    bench.nebraska.inject(Fault::Hang.on(Verb::Omaha).after(1));
    let update = Uuid::new_v4();
    bench.carry_out_well(&bench.request_of(update, Operation::Stage)).await;
    bench.carry_out_well(&bench.request_of(update, Operation::Finalize)).await;
    bench.reboot();
    assert_eq!(bench.commit().await.unwrap(), Ended::With(Code::Success));
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    let owed: Vec<_> = bench.state().owed_events.into_iter().map(|it| it.event).collect();
    let complete = EventKind::Complete { previous_version: OLD.into() };
    let all =
        [EventKind::DownloadStarted, EventKind::DownloadFinished, EventKind::Installed, complete];
    assert_eq!(owed, all);
    bench.nebraska.clear_faults();
    bench.report().await.expect("all is delivered");
    let instance = bench.nebraska.instance(&Bench::machine()).expect("an instance");
    use InstanceStatus::{Complete, Downloaded, Downloading, Installed, UpdateGranted};
    assert_eq!(instance.statuses(), [UpdateGranted, Downloading, Downloaded, Installed, Complete]);
});

bench_test!(an_event_is_owed_until_it_is_taken, async |bench| {
    bench.carry_out_well(&bench.request(Operation::Stage)).await;
    let owed = bench.state().owed_events;
    assert!(!owed.is_empty());
    let refused = format!(
        r#"<response><app appid="{APP}" status="error-instanceRegistrationFailed"><event status="ok"/></app></response>"#
    );
    for answer in ["", "<?xml version=\"1.0\"?>", "<html/>", "<response/>", &refused] {
        bench.nebraska.set_raw_response(Some(answer));
        let error = bench.report().await.expect_err(answer);
        assert!(matches!(error, OperateError::StillOwed { .. }), "{error:?}");
        assert_eq!(bench.state().owed_events, owed, "{answer}");
    }
    bench.nebraska.set_raw_response(None);
    for status in [404, 500, 503] {
        bench.nebraska.inject(Fault::Status(status).on(Verb::Omaha).times(1));
        bench.report().await.expect_err("not taken");
        assert_eq!(bench.state().owed_events, owed, "{status}");
    }
    bench.report().await.expect("all is delivered");
    assert!(bench.state().owed_events.is_empty());
    assert_eq!(bench.report().await.unwrap(), Ended::Idle);
});

/// An event of an update that ended long ago, at this server.
fn owed(bench: &Bench, server: &str, track: &str, event: EventKind) -> OwedEvent {
    let request = bench.request(Operation::Stage).with("server", json!(server));
    let request = Wanted::parse(&request.text()).expect("a request");
    let update = request.work.update().expect("an update").clone();
    OwedEvent {
        operation_id: request.operation_id,
        node_update_id: request.node_update_id,
        operation: Phase::Stage,
        target_version: update.target_version,
        server: update.server,
        app_id: update.app_id,
        track: track.to_owned(),
        version: OLD.to_owned(),
        event,
    }
}

bench_test!(a_stage_first_tells_its_own_server_and_waits_for_no_other, async |bench| {
    let begun = Instant::now();
    let silent: Vec<_> = (0..4).map(|_| bench.other_nebraska()).collect();
    for (nebraska, _) in &silent {
        nebraska.inject(Fault::Hang);
    }
    let ours = owed(&bench, &bench.server, TRACK, EventKind::Failed);
    let others = silent.iter().map(|(_, server)| owed(&bench, server, TRACK, EventKind::Failed));
    let events: Vec<_> = others.chain([ours]).collect();
    bench.store().update(|state| state.owed_events = events).unwrap();
    bench.carry_out_well(&bench.request(Operation::Stage)).await;
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    assert_eq!(bench.said()[..2], ["3,0", "check"], "{:?}", bench.said());
    let left = bench.state().owed_events;
    assert_eq!(left.iter().filter(|it| it.event == EventKind::Failed).count(), 4, "{left:?}");
});

bench_test!(an_event_that_cannot_be_told_holds_back_no_other, async |bench| {
    bench.carry_out_well(&bench.request(Operation::Stage)).await;
    let empty = EventKind::Complete { previous_version: " ".into() };
    let hopeless = [
        owed(&bench, &bench.server, "a\u{1}b", EventKind::Failed),
        owed(&bench, &bench.server, &"x".repeat(70_000), EventKind::Failed),
        owed(&bench, &bench.server, TRACK, empty),
    ];
    bench.store().update(|state| state.owed_events.splice(0..0, hopeless).count()).unwrap();
    bench.report().await.expect("nothing is owed any more");
    assert!(bench.state().owed_events.is_empty());
    assert_eq!(bench.said(), ["check", "13,1", "14,1"]);
});

bench_test!(the_first_that_fails_holds_back_the_later_ones_of_its_app_alone, async |bench| {
    let (away, server) = bench.other_nebraska();
    let events = [
        owed(&bench, &server, TRACK, EventKind::DownloadStarted),
        owed(&bench, &bench.server, TRACK, EventKind::DownloadStarted),
        owed(&bench, &server, TRACK, EventKind::Failed),
        owed(&bench, &bench.server, TRACK, EventKind::Failed),
    ];
    bench.store().update(|state| state.owed_events = events.to_vec()).unwrap();
    away.inject(Fault::Refuse.times(1));
    let error = bench.report().await.expect_err("two are left");
    assert!(matches!(error, OperateError::StillOwed { left: 2 }), "{error:?}");
    assert_eq!(bench.said(), ["13,1", "3,0"]);
    assert_eq!(bench.state().owed_events, [events[0].clone(), events[2].clone()], "in their order");
    assert!(away.requests().is_empty(), "the later one was not tried");
    away.add_group(APP, TRACK);
    bench.report().await.expect("all is delivered");
    let told: Vec<_> = away.requests().iter().flat_map(|it| it.events()).collect();
    assert_eq!(told, [(13, 1), (3, 0)]);
    eventually("nothing is owed", || bench.state().owed_events.is_empty()).await;
});
