//! What Nebraska answers to a stage, and what the status says of it.

use serde_json::json;
use trident_acl_agent::contract::{Code, Operation, Status};
use trident_lab::lab::{APP, NEW, OLD, TRACK};
use trident_lab::nebraska::{Fault, Verb};
use trident_lab::trident::Method;

use crate::bench::{Bench, package};

const STAGE: Operation = Operation::Stage;

/// Nothing was begun: nothing is staged, and no update has failed that a rollout could be stopped for.
fn assert_refused(bench: &Bench, status: &Status, says: &[&str]) {
    let message = status.message.as_str();
    assert_eq!(status.code, Code::OperationFailed, "{message}");
    assert!(says.iter().all(|word| message.contains(word)), "{says:?}: {message}");
    assert!(status.trident_error.is_none(), "{message}");
    assert!(bench.trident.calls_of(Method::UpdateStage).is_empty());
    assert!(bench.state().owed_events.is_empty() && bench.state().staged.is_none());
    assert!(bench.said().iter().all(|said| said == "check"), "{:?}", bench.said());
}

bench_test!(a_refusal_is_named_and_later_means_later, async |bench| {
    for (status, later) in [
        ("error-maxUpdatesPerPeriodLimitReached", true),
        ("error-maxConcurrentUpdatesLimitReached", true),
        ("error-maxTimedOutUpdatesLimitReached", true),
        ("error-updatesDisabled", true),
        ("error-noPackageFound", false),
        ("error-instanceRegistrationFailed", false),
        ("error-couldNotCheckUpdatesStats", false),
        ("error-failedToRetrieveUpdatePackageInfo", false),
        ("error-of-next-year", false),
    ] {
        bench.nebraska.refuse(APP, TRACK, Some(status));
        let refused = bench.carry_out(&bench.request(STAGE)).await;
        assert_refused(&bench, &refused, &[status]);
        assert_eq!(refused.message.as_str().contains("later"), later, "{}", refused.message);
    }
    let nowhere = bench.request(STAGE).with("track", json!("nowhere"));
    let refused = bench.carry_out(&nowhere).await;
    assert_refused(&bench, &refused, &["error-unknownApplicationOrGroup"]);
    bench.nebraska.refuse(APP, TRACK, None);
    bench.carry_out_well(&bench.request(STAGE)).await;
});

bench_test!(an_offer_of_another_version_is_refused_and_named, async |bench| {
    let floor = trident_lab::nebraska::PackageSpec {
        version: "202606.20.0".into(),
        floor: true,
        ..package()
    };
    for target in ["202607.1.0", "202606.29.0-rc.1", "202606.29.0+build"] {
        let request = bench.request(STAGE).with("targetVersion", json!(target));
        let refused = bench.carry_out(&request).await;
        assert_refused(&bench, &refused, &[target, NEW]);
    }
    bench.nebraska.add_package(APP, TRACK, floor);
    let refused = bench.carry_out(&bench.request(STAGE)).await;
    assert_refused(&bench, &refused, &[NEW, "202606.20.0", "older"]);
});

bench_test!(no_update_is_named_with_the_version_asked_from, async |mut bench| {
    let older = bench.request(STAGE).with("targetVersion", json!("202606.1.0"));
    bench.nebraska.clear_packages(APP, TRACK);
    let spec = trident_lab::nebraska::PackageSpec { version: "202606.1.0".into(), ..package() };
    bench.nebraska.add_package(APP, TRACK, spec);
    let refused = bench.carry_out(&older).await;
    assert_refused(&bench, &refused, &["no update from", OLD]);
    bench.set("CURRENT_VERSION_FALLBACK", "error");
    bench.set("CURRENT_VERSION_PATH", "/missing");
    bench.accept_from(&older, OLD);
    bench.start(&older).await.expect("an outcome is recorded");
    let asked = bench.said().len();
    assert_refused(&bench, &bench.status(&older), &["/missing"]);
    assert_eq!(bench.said().len(), asked, "a version that is not known is never asked from");
});

bench_test!(a_version_that_nebraska_cannot_compare_is_warned_of, async |bench| {
    // A leading zero: no semantic version, and never newer than anything at the server.
    let odd = "202606.01.0";
    let spec = trident_lab::nebraska::PackageSpec { version: odd.into(), ..package() };
    bench.nebraska.add_package(APP, TRACK, spec);
    let warning = "no semantic version";
    let request = bench.request(STAGE).with("targetVersion", json!(odd));
    let refused = bench.carry_out(&request).await;
    assert_refused(&bench, &refused, &["no update", warning, "0.0.0"]);
    let finalize = bench.request(Operation::Finalize).with("targetVersion", json!(odd));
    let failed = bench.carry_out(&finalize).await;
    assert!(failed.message.as_str().contains(warning), "{}", failed.message);
    bench.nebraska.add_package(APP, TRACK, package());
    let good = bench.carry_out_well(&bench.request(STAGE)).await;
    assert!(!good.message.as_str().contains("warning"), "{}", good.message);
});

bench_test!(an_image_from_elsewhere_is_refused_without_its_secrets, async |bench| {
    for (codebase, name, says) in [
        (Some("http://images.lab.test/?sig=SECRET"), "i.cosi?SECRET", "http://images.lab.test"),
        (Some("https://h/SECRET"), "file:///etc/SECRET", "file:"),
        (Some("https://h/SECRET"), "ftp://u:SECRET@h/i", "ftp://h"),
        (Some("https://h/SECRET"), "data:text/plain,SECRET", "data:"),
        (Some("oci:///SECRET"), "i", "oci:"),
        (None, "SECRET.cosi", "do not make an address"),
    ] {
        let spec = trident_lab::nebraska::PackageSpec {
            codebase: codebase.map(str::to_owned),
            name: name.to_owned(),
            ..package()
        };
        bench.nebraska.add_package(APP, TRACK, spec);
        let refused = bench.carry_out(&bench.request(STAGE)).await;
        assert_refused(&bench, &refused, &[says]);
        assert!(!refused.message.as_str().contains("SECRET"), "{}", refused.message);
    }
});

bench_test!(what_is_no_answer_is_named, async |bench| {
    let page = Fault::Status(403);
    bench.nebraska.inject(page.on(Verb::Omaha).times(1));
    let refused = bench.carry_out(&bench.request(STAGE)).await;
    assert_refused(&bench, &refused, &["https://localhost:", "403"]);
    let odd = bench.request(STAGE);
    bench.accept_from(&odd, "1.0\u{1}");
    bench.start(&odd).await.expect("an outcome is recorded");
    assert_refused(&bench, &bench.status(&odd), &["the running version", "XML"]);
    // Trouble that may pass is waited out: the second answer is a good one.
    bench.nebraska.inject(Fault::Status(503).on(Verb::Omaha).times(1));
    bench.carry_out_well(&bench.request(STAGE)).await;
});
