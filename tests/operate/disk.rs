//! The state directory is full, or read-only: nothing is begun that cannot be recorded, and nothing is lost.

use trident_acl_agent::contract::{Code, Operation, chain};
use trident_acl_agent::operate::{Ended, OperateError};
use trident_lab::disk::SmallDisk;
use trident_lab::lab::Request;
use trident_lab::trident::{Method, Outcome, Script};

use crate::bench::Bench;

type Change = fn(&SmallDisk);
/// One trouble, how it comes and how it goes.
type Trouble = (&'static str, Change, Change);

const TROUBLES: [Trouble; 2] = [
    ("full", |disk| disk.fill().unwrap(), |disk| disk.empty().unwrap()),
    ("read-only", |disk| disk.read_only(true).unwrap(), |disk| disk.read_only(false).unwrap()),
];

/// What changes a slot, the boot or its commit.
const CHANGES: [Method; 4] =
    [Method::UpdateStage, Method::UpdateFinalize, Method::RollbackFinalize, Method::Commit];

fn changes(bench: &Bench) -> usize {
    CHANGES.iter().map(|method| bench.trident.calls_of(*method).len()).sum()
}

fn is_said(ended: Result<Ended, OperateError>, what: &str) {
    let error = ended.expect_err(what);
    assert!(matches!(error, OperateError::Store(_)), "{what}: {error:?}");
    let said = chain(&error);
    assert!(said.contains("state.json"), "{what}: {said}");
    let cause = ["No space left", "Read-only file system"];
    assert!(cause.iter().any(|cause| said.contains(cause)), "{what}: {said}");
}

bench_test!(what_cannot_be_recorded_is_not_begun, async |mut bench| {
    let disk = bench.small_disk();
    for (trouble, make, end) in TROUBLES {
        let update = uuid::Uuid::new_v4();
        for operation in [Operation::Stage, Operation::Finalize, Operation::Rollback] {
            let what = format!("{} on a {trouble} disk", operation.name());
            let request: Request = bench.request_of(update, operation);
            bench.accept(&request);
            let begun = changes(&bench);
            make(&disk);
            is_said(bench.start(&request).await, &what);
            assert_eq!(changes(&bench), begun, "{what}: tridentd was asked");
            assert!(bench.state().operation.is_some(), "{what}: it is not forgotten");
            end(&disk);
            assert_eq!(bench.start(&request).await.unwrap(), Ended::With(Code::Success), "{what}");
            tell(&bench, &disk, (make, end), &what).await;
            if operation == Operation::Stage {
                continue;
            }
            bench.reboot();
            let begun = changes(&bench);
            make(&disk);
            is_said(bench.commit().await, &what);
            assert_eq!(changes(&bench), begun, "{what}: tridentd was asked to commit");
            end(&disk);
            assert_eq!(bench.commit().await.unwrap(), Ended::With(Code::Success), "{what}");
            tell(&bench, &disk, (make, end), &what).await;
        }
    }
    let mut events = bench.said();
    events.retain(|said| said != "check");
    // What the server took and nobody could record is told again, and nothing is left out.
    events.dedup();
    let update = ["13,1", "14,1", "800,1", "3,2+ping+check"];
    assert_eq!(events, [update, update].concat());
});

/// The report, with the trouble and without it.
async fn tell(bench: &Bench, disk: &SmallDisk, (make, end): (Change, Change), what: &str) {
    let owed = bench.state().owed_events.len();
    make(disk);
    let told = bench.report().await;
    if owed > 0 {
        is_said(told, what);
    }
    assert_eq!(bench.state().owed_events.len(), owed, "{what}: an event is forgotten");
    end(disk);
    bench.report().await.unwrap();
    assert!(bench.state().owed_events.is_empty(), "{what}");
}

// The disk fills up while tridentd works: the boot is armed, and that cannot be recorded.
bench_test!(an_outcome_that_finds_no_room_is_found_out_later, async |mut bench| {
    let disk = bench.small_disk();
    let update = uuid::Uuid::new_v4();
    bench.carry_out_well(&bench.request_of(update, Operation::Stage)).await;
    let gate = bench.trident.hold(Method::UpdateFinalize, Script::new());
    let request = bench.request_of(update, Operation::Finalize);
    bench.accept(&request);
    let fill = async {
        gate.reached().await;
        disk.fill().unwrap();
        gate.release();
    };
    let (ended, ()) = tokio::join!(bench.start(&request), fill);
    is_said(ended, "the outcome");
    // Asked again while there is no room: nothing is armed twice.
    is_said(bench.start(&request).await, "the outcome, again");
    disk.empty().unwrap();
    assert_eq!(bench.start(&request).await.unwrap(), Ended::With(Code::Success));
    let calls = bench.trident.calls_of(Method::UpdateFinalize);
    assert_eq!(calls.len(), 1, "{calls:?}");

    bench.reboot();
    let gate = bench.trident.hold(Method::Commit, Script::new());
    let fill = async {
        gate.reached().await;
        disk.fill().unwrap();
        gate.release();
    };
    let (ended, ()) = tokio::join!(bench.commit(), fill);
    is_said(ended, "the commit's outcome");
    disk.empty().unwrap();
    assert_eq!(bench.commit().await.unwrap(), Ended::With(Code::Success));
    let ends: Vec<_> =
        bench.trident.calls_of(Method::Commit).into_iter().map(|it| it.outcome).collect();
    assert!(
        matches!(ends[..], [Some(Outcome::Succeeded(_)), Some(Outcome::Succeeded(_))]),
        "{ends:?}"
    );
    bench.report().await.unwrap();
    let id = trident_acl_agent::contract::Id::parse(request.operation_id()).unwrap();
    let commit = bench.state().find(&id).unwrap().commit.clone().unwrap();
    assert_eq!(commit.status.code, Code::Success, "{}", commit.status.message);
});
