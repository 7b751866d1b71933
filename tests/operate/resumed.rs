//! A stage that starts again, in the eyes of Nebraska.

use tonic::Code as Status;
use trident_acl_agent::contract::{Code, Operation};
use trident_acl_agent::operate::Ended;
use trident_lab::lab::{APP, Request, TRACK};
use trident_lab::nebraska::{Fault, InstanceStatus, Verb};
use trident_lab::trident::{CallRecord, Gate, Method, Outcome, Script};
use uuid::Uuid;

use crate::bench::{Bench, eventually};

/// A stage whose process dies while tridentd is at work, with the download's start delivered.
async fn died(bench: &Bench) -> Request {
    let gate = bench.trident.hold(Method::UpdateStage, Script::new());
    let request = bench.request(Operation::Stage);
    bench.accept(&request);
    let told = async {
        gate.reached().await;
        let machine = Bench::machine();
        let limit = trident_lab::lab::SOON;
        let status = InstanceStatus::Downloading;
        bench.nebraska.wait_for_status(&machine, status, limit).await.expect("it was told");
        eventually("nothing is owed", || bench.state().owed_events.is_empty()).await;
    };
    // The process dies: whatever it was doing is dropped.
    tokio::select! {
        ended = bench.start(&request) => panic!("the stage waits for tridentd: {ended:?}"),
        () = told => {}
    }
    gate.release();
    bench
        .trident
        .wait_ended(Method::UpdateStage, 1, trident_lab::lab::SOON)
        .await
        .expect("it goes on");
    request
}

bench_test!(answered_in_progress_it_goes_on_with_the_recorded_offer, async |bench| {
    let request = died(&bench).await;
    bench.nebraska.clear_packages(APP, TRACK);
    bench.start(&request).await.expect("an outcome");
    assert_eq!(bench.status(&request).code, Code::Success, "{}", bench.status(&request).message);
    assert_eq!(bench.said(), ["check", "13,1", "check"]);
    bench.report().await.expect("all is delivered");
    assert_eq!(bench.said(), ["check", "13,1", "check", "14,1"], "one download, and no failure");
    let urls: Vec<_> = bench.trident.calls_of(Method::UpdateStage);
    assert_eq!(urls[0].request["url"], urls[1].request["url"]);
});

bench_test!(with_the_state_lost_it_reports_a_failure_and_asks_once_more, async |bench| {
    let request = died(&bench).await;
    std::fs::remove_file(bench.directory.join("state.json")).unwrap();
    let status = bench.carry_out(&request).await;
    assert_eq!(status.code, Code::Success, "{}", status.message);
    bench.report().await.expect("all is delivered");
    assert_eq!(bench.said(), ["check", "13,1", "check", "3,0", "check", "13,1", "14,1"]);
    let instance = bench.nebraska.instance(&Bench::machine()).expect("an instance");
    assert_eq!(instance.status, InstanceStatus::Downloaded);
});

bench_test!(still_in_progress_after_that_it_hints_at_a_clone, async |bench| {
    bench.nebraska.refuse(APP, TRACK, Some("error-updateInProgressOnInstance"));
    let status = bench.carry_out(&bench.request(Operation::Stage)).await;
    assert_eq!(status.code, Code::OperationFailed);
    assert!(status.message.as_str().contains("same machine id"), "{}", status.message);
    assert_eq!(bench.said(), ["check", "3,0", "check"], "once more, and no more");
    assert!(bench.trident.calls_of(Method::UpdateStage).is_empty());
});

bench_test!(a_release_that_cannot_be_told_does_not_keep_it_from_asking, async |bench| {
    let request = died(&bench).await;
    std::fs::remove_file(bench.directory.join("state.json")).unwrap();
    bench.nebraska.inject(Fault::Status(404).on(Verb::Omaha).after(1).times(1));
    let status = bench.carry_out(&request).await;
    assert_eq!(status.code, Code::OperationFailed);
    assert!(status.message.as_str().contains("releasing the update"), "{}", status.message);
    assert!(status.message.as_str().contains("404"), "{}", status.message);
    assert_eq!(bench.said(), ["check", "13,1", "check", "3,0", "check"]);
});

bench_test!(what_was_staged_of_the_same_update_is_known_too, async |bench| {
    bench.carry_out_well(&bench.request(Operation::Stage)).await;
    bench.report().await.expect("all is delivered");
    bench.carry_out_well(&bench.request(Operation::Stage)).await;
    assert_eq!(bench.said(), ["check", "13,1", "14,1", "check", "13,1"], "no failure is told");
});

/// The process dies while tridentd works on its call, which is held here.
async fn died_arming(bench: &Bench, update: Uuid, operation: Operation) -> (Request, Method, Gate) {
    let method = match operation {
        Operation::Rollback => Method::RollbackFinalize,
        Operation::Stage | Operation::Finalize => {
            bench.carry_out_well(&bench.request_of(update, Operation::Stage)).await;
            Method::UpdateFinalize
        }
    };
    let gate = bench.trident.hold(method, Script::new());
    let request = bench.request_of(update, operation);
    bench.accept(&request);
    tokio::select! {
        ended = bench.start(&request) => panic!("it waits for tridentd: {ended:?}"),
        () = gate.reached() => {}
    }
    (request, method, gate)
}

bench_test!(a_call_that_still_runs_is_not_made_again_when_it_is_over, async |bench| {
    let update = bench.update().await;
    for operation in [Operation::Rollback, Operation::Finalize] {
        let begun = bench.trident.calls().len();
        let (request, method, gate) = died_arming(&bench, update, operation).await;
        let calls = || {
            let calls = bench.trident.calls().split_off(begun).into_iter();
            calls.filter(|call| call.method == method).collect::<Vec<_>>()
        };
        let release = async {
            let refused = || calls().len() > 1;
            eventually("the next attempt was told that tridentd is busy", refused).await;
            gate.release();
        };
        let (ended, ()) = tokio::join!(bench.start(&request), release);
        ended.expect("an outcome");
        let status = bench.status(&request);
        assert_eq!(status.code, Code::Success, "{}", status.message);
        let calls = calls();
        let done = |call: &&CallRecord| matches!(call.outcome, Some(Outcome::Succeeded(_)));
        let refused =
            |call: &&CallRecord| call.outcome == Some(Outcome::Status(Status::Unavailable));
        assert_eq!(calls.iter().filter(done).count(), 1, "{calls:?}");
        assert_eq!(calls.iter().filter(refused).count(), calls.len() - 1, "{calls:?}");
        bench.reboot();
        assert_eq!(bench.commit().await.unwrap(), Ended::With(Code::Success));
    }
});

// The earlier call ends between the look and the call: the servicing state was not told, and the boot is armed.
bench_test!(a_call_that_is_refused_because_an_earlier_one_did_it, async |bench| {
    let update = bench.update().await;
    for operation in [Operation::Rollback, Operation::Finalize] {
        let (request, method, gate) = died_arming(&bench, update, operation).await;
        let calls = bench.trident.calls_of(method).len();
        gate.release();
        bench.trident.wait_ended(method, calls, trident_lab::lab::SOON).await.expect("it ends");
        bench.trident.offer_status_service(false);
        let gate = bench.trident.hold(method, Script::new());
        let tell = async {
            gate.reached().await;
            bench.trident.offer_status_service(true);
            gate.release();
        };
        let (ended, ()) = tokio::join!(bench.start(&request), tell);
        ended.expect("an outcome");
        let status = bench.status(&request);
        assert_eq!(status.code, Code::Success, "{}", status.message);
        let last = bench.trident.calls_of(method).pop().and_then(|call| call.outcome);
        assert!(matches!(last, Some(Outcome::Failed(_))), "{last:?}");
        bench.reboot();
        assert_eq!(bench.commit().await.unwrap(), Ended::With(Code::Success));
    }
});
