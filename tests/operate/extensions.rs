//! The slotted extensions of a boot, as its commit settles them.

use serde_json::{Value, json};
use trident_acl_agent::contract::{Code, Operation};
use trident_acl_agent::operate::Ended;
use uuid::Uuid;

use crate::bench::Bench;

const PENDING: &str = "var/trident/extensions/slot-loader.pending";
const REPORT: &str = "run/trident/slot-loader.json";

fn report(outcome: &str, failure: &Value) -> String {
    json!({ "schemaVersion": "1.0", "loaderVersion": "0.1.0", "outcome": outcome, "failure": failure,
        "slot": "b", "store": "/var/trident/extensions", "updateBoot": true, "published": [],
        "leftOut": [], "steps": [] })
    .to_string()
}

/// An update to its reboot, with a set that waits for it.
async fn rebooted(bench: &Bench) -> trident_lab::lab::Request {
    let update = Uuid::new_v4();
    bench.carry_out_well(&bench.request_of(update, Operation::Stage)).await;
    let finalize = bench.request_of(update, Operation::Finalize);
    bench.carry_out_well(&finalize).await;
    bench.install(PENDING, r#"{"schemaVersion":"1.0","slot":"b"}"#);
    bench.reboot();
    finalize
}

fn is_pending(bench: &Bench) -> bool {
    bench.directory.join("root").join(PENDING).exists()
}

bench_test!(a_good_commit_confirms_the_set_of_its_boot, async |bench| {
    let request = rebooted(&bench).await;
    bench.install(REPORT, &report("published", &Value::Null));
    assert_eq!(bench.commit().await.unwrap(), Ended::With(Code::Success));
    let message = bench.commit_status(&request).message;
    assert!(message.as_str().ends_with("it was committed"), "{message}");
    assert!(!is_pending(&bench));
});

bench_test!(a_set_that_did_not_load_is_in_the_status_of_the_commit, async |bench| {
    let request = rebooted(&bench).await;
    let failure = json!({ "step": "images", "reason": "the required sysext tools cannot be used" });
    bench.install(REPORT, &report("failed", &failure));
    assert_eq!(bench.commit().await.unwrap(), Ended::With(Code::Success));
    let message = bench.commit_status(&request).message;
    let says = "committed; its slotted extensions did not load: images: the required sysext tools";
    assert!(message.as_str().contains(says), "{message}");
    assert!(is_pending(&bench), "nothing is proved");
});

bench_test!(a_boot_that_is_not_committed_confirms_nothing, async |bench| {
    let request = rebooted(&bench).await;
    bench.trident.next(
        trident_lab::trident::Method::Commit,
        trident_lab::trident::Script::new().fail_bare(),
    );
    bench.install(REPORT, &report("published", &Value::Null));
    assert_eq!(bench.commit().await.unwrap(), Ended::With(Code::OperationFailed));
    assert!(is_pending(&bench), "{}", bench.commit_status(&request).message);
});

// A store that cannot be used holds no commit up.
bench_test!(what_cannot_be_confirmed_is_said, async |bench| {
    let request = rebooted(&bench).await;
    bench.install(REPORT, &report("published", &Value::Null));
    let path = bench.directory.join("root").join(PENDING);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(bench.commit().await.unwrap(), Ended::With(Code::Success));
    let message = bench.commit_status(&request).message;
    assert!(message.as_str().contains("cannot be confirmed: "), "{message}");
});

bench_test!(where_no_loader_said_anything_there_is_nothing_to_say, async |bench| {
    let request = rebooted(&bench).await;
    bench.install(REPORT, "{");
    assert_eq!(bench.commit().await.unwrap(), Ended::With(Code::Success));
    let message = bench.commit_status(&request).message;
    assert!(message.as_str().ends_with("it was committed"), "{message}");
    assert!(is_pending(&bench));
});
