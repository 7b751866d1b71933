//! The state machine of an instance.

use std::time::Duration;

use trident_lab::nebraska::InstanceStatus::{
    Complete, Downloaded, Downloading, Error, Installed, OnHold, UpdateGranted,
};
use trident_lab::nebraska::{DropReason, InstanceStatus, Limits, PackageSpec};

use super::{PATIENCE, Updates};

const APP: &str = "a1b2c3d4-0000-4000-8000-000000000001";
const IN_PROGRESS: &str = "error-updateInProgressOnInstance";

/// The request of a machine on a version.
fn request(machine: &str, version: &str, track: &str, children: &str) -> String {
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<request protocol="3.0" version="agent-1.0" ismachine="1" sessionid="s">
<os platform="linux" version="{version}" arch="amd64"/>
<app appid="{APP}" version="{version}" track="{track}" machineid="{machine}">{children}</app></request>"#
    )
}

fn event(kind: i64, result: i64, previous: &str) -> String {
    format!(r#"<event eventtype="{kind}" eventresult="{result}" previousversion="{previous}"/>"#)
}

const CHECK: &str = "<updatecheck/>";

impl Updates {
    fn offering(version: &str) -> Self {
        let updates = Self::new();
        let package = PackageSpec::new(version, "https://images.example.com/", "image.cosi");
        updates.nebraska.add_package(APP, "stable", package);
        updates
    }

    async fn send(&self, children: &str) -> String {
        self.post(request("m1", "1.0.0", "stable", children)).await
    }

    fn status(&self) -> Option<InstanceStatus> {
        self.nebraska.instance("m1").map(|instance| instance.status)
    }
}

#[tokio::test]
async fn an_update_passes_through_all_states() {
    let updates = Updates::offering("2.0.0");
    assert!(updates.send(CHECK).await.contains(r#"<updatecheck status="ok">"#));
    for (kind, status) in [(13, Downloading), (14, Downloaded), (800, Installed)] {
        let answer = updates.send(&event(kind, 1, "")).await;
        assert!(answer.contains(r#"<event status="ok">"#), "{answer}");
        assert_eq!(updates.status(), Some(status));
        let answer = updates.send(CHECK).await;
        assert!(answer.contains(&format!(r#"status="{IN_PROGRESS}""#)), "{answer}");
        assert!(answer.contains(r#"<updatecheck status="error-internal">"#), "{answer}");
    }
    let done = format!(r#"{}<ping active="1"/>{CHECK}"#, event(3, 2, "1.0.0"));
    let answer = updates.post(request("m1", "2.0.0", "stable", &done)).await;
    for part in [r#"<ping status="ok">"#, r#"status="noupdate""#, r#"<event status="ok">"#] {
        assert!(answer.contains(part), "{answer}");
    }
    let instance = updates.nebraska.wait_for_status("m1", Complete, PATIENCE).await.unwrap();
    let statuses = [UpdateGranted, Downloading, Downloaded, Installed, Complete];
    assert_eq!(instance.statuses(), statuses);
    assert_eq!(instance.version, "2.0.0");
    assert!(!instance.update_in_progress);
    assert!(updates.nebraska.dropped_events().is_empty());
}

/// What each pair does while an update is in progress.
#[tokio::test]
async fn every_pair_has_its_consequence_or_none() {
    let cases = [
        ((13, 1, ""), Ok(Downloading)),
        ((14, 1, ""), Ok(Downloaded)),
        ((800, 1, ""), Ok(Installed)),
        ((3, 0, ""), Ok(Error)),
        ((3, 2, "1.0.0"), Ok(Complete)),
        ((3, 2, ""), Err(DropReason::NoPreviousVersion)),
        ((3, 2, "0.0.0"), Err(DropReason::NoPreviousVersion)),
        ((3, 1, "1.0.0"), Err(DropReason::UnknownPair)),
        ((13, 0, ""), Err(DropReason::UnknownPair)),
        ((13, 2, ""), Err(DropReason::UnknownPair)),
        ((800, 0, ""), Err(DropReason::UnknownPair)),
        ((54, 1, ""), Err(DropReason::UnknownPair)),
    ];
    for ((kind, result, previous), wanted) in cases {
        let updates = Updates::offering("2.0.0");
        updates.send(CHECK).await;
        let answer = updates.send(&event(kind, result, previous)).await;
        assert!(answer.contains(r#"<event status="ok">"#), "{answer}");
        let dropped = updates.nebraska.dropped_events().first().map(|event| event.reason);
        match wanted {
            Ok(status) => assert_eq!((updates.status(), dropped), (Some(status), None)),
            Err(reason) => {
                assert_eq!((updates.status(), dropped), (Some(UpdateGranted), Some(reason)));
            }
        }
    }
}

#[tokio::test]
async fn events_without_an_update_in_progress_are_dropped() {
    let updates = Updates::offering("2.0.0");
    updates.send(&event(13, 1, "")).await;
    assert_eq!(updates.status(), None);
    updates.send(r#"<ping active="1"/>"#).await;
    assert_eq!(updates.status(), Some(InstanceStatus::Undefined));
    updates.send(&event(13, 1, "")).await;
    updates.send(CHECK).await;
    updates.send(&event(3, 0, "")).await;
    updates.send(&event(800, 1, "")).await;
    let reasons: Vec<_> = updates.nebraska.dropped_events().iter().map(|e| e.reason).collect();
    let none = DropReason::NoUpdateInProgress;
    assert_eq!(reasons, [DropReason::UnknownInstance, none, none]);
    assert_eq!(updates.nebraska.instance("m1").unwrap().statuses(), [UpdateGranted, Error]);
    assert!(updates.send(CHECK).await.contains(r#"<updatecheck status="ok">"#));
}

#[tokio::test]
async fn a_completion_without_previous_version_keeps_the_instance_busy() {
    let updates = Updates::offering("2.0.0");
    updates.send(CHECK).await;
    updates.send(&event(800, 1, "")).await;
    let done = format!("{}{CHECK}", event(3, 2, ""));
    let answer = updates.post(request("m1", "2.0.0", "stable", &done)).await;
    assert!(answer.contains(IN_PROGRESS), "{answer}");
}

#[tokio::test]
async fn the_track_comes_before_everything() {
    let updates = Updates::offering("2.0.0");
    updates.send(CHECK).await;
    let all = format!("{}{CHECK}", event(13, 1, ""));
    for track in ["nightly", ""] {
        let answer = updates.post(request("m1", "1.0.0", track, &all)).await;
        let wanted =
            format!(r#"<app appid="{APP}" status="error-unknownApplicationOrGroup"></app>"#);
        assert!(answer.contains(&wanted), "{answer}");
    }
    assert_eq!(updates.status(), Some(UpdateGranted));
}

#[tokio::test]
async fn a_bare_app_registers_nothing() {
    let updates = Updates::offering("2.0.0");
    let answer = updates.send("").await;
    assert!(answer.contains(&format!(r#"<app appid="{APP}" status="ok"></app>"#)), "{answer}");
    assert!(updates.nebraska.instances().is_empty());
    assert!(updates.nebraska.requests()[0].app().unwrap().is_bare());
}

#[tokio::test]
async fn versions_compare_as_semver() {
    let cases = [
        ("1.0.0", true),
        ("0.0.0", true),
        ("2.0.0", false),
        ("2.0.1", false),
        ("2.0.0-rc.1", true),
        ("02.0.0", true),
        ("202606.01.0", true),
        ("202606.1.0", false),
        ("2.0", true),
        ("", true),
    ];
    for (version, offered) in cases {
        let updates = Updates::offering("2.0.0");
        let answer = updates.post(request("m1", version, "stable", CHECK)).await;
        assert_eq!(answer.contains(r#"<updatecheck status="ok">"#), offered, "{version}");
        assert_eq!(answer.contains(r#"<updatecheck status="noupdate">"#), !offered, "{version}");
    }
}

#[tokio::test]
async fn a_floor_is_offered_before_what_is_above_it() {
    let updates = Updates::offering("3.0.0");
    let mut floor = PackageSpec::new("2.0.0", "https://images.example.com", "floor.cosi");
    floor.floor = true;
    updates.nebraska.add_package(APP, "stable", floor);
    assert!(updates.send(CHECK).await.contains(r#"<manifest version="2.0.0">"#));
    let answer = updates.post(request("m2", "2.0.0", "stable", CHECK)).await;
    assert!(answer.contains(r#"<manifest version="3.0.0">"#), "{answer}");
}

#[tokio::test]
async fn limits_put_an_instance_on_hold() {
    let limits = Limits::default();
    let cases = [
        (Limits { updates_enabled: false, ..limits }, "error-updatesDisabled"),
        (Limits { max_concurrent: 0, ..limits }, "error-maxConcurrentUpdatesLimitReached"),
        (Limits { max_per_period: 0, ..limits }, "error-maxUpdatesPerPeriodLimitReached"),
    ];
    for (limits, status) in cases {
        let updates = Updates::offering("2.0.0");
        updates.nebraska.set_group_limits(APP, "stable", limits);
        let answer = updates.send(CHECK).await;
        assert!(answer.contains(&format!(r#"status="{status}""#)), "{answer}");
        assert_eq!(updates.status(), Some(OnHold));
        updates.nebraska.set_group_limits(APP, "stable", Limits::default());
        updates.send(CHECK).await;
        assert_eq!(updates.status(), Some(UpdateGranted));
    }
}

#[tokio::test]
async fn in_safe_mode_the_first_failure_stops_the_group() {
    let updates = Updates::offering("2.0.0");
    let limits = Limits { safe_mode: true, ..Limits::default() };
    updates.nebraska.set_group_limits(APP, "stable", limits);
    updates.send(CHECK).await;
    updates.send(&event(3, 0, "")).await;
    let answer = updates.post(request("m2", "1.0.0", "stable", CHECK)).await;
    assert!(answer.contains("error-updatesDisabled"), "{answer}");
}

#[tokio::test]
async fn any_refusal_can_be_had() {
    for status in [
        "error-noPackageFound",
        "error-maxTimedOutUpdatesLimitReached",
        "error-instanceRegistrationFailed",
        "error-couldNotCheckUpdatesStats",
        "error-failedToRetrieveUpdatePackageInfo",
        "error-neverHeardOf",
    ] {
        let updates = Updates::offering("2.0.0");
        updates.nebraska.refuse(APP, "stable", Some(status));
        let answer = updates.send(CHECK).await;
        assert!(answer.contains(&format!(r#"status="{status}""#)), "{answer}");
        updates.nebraska.refuse(APP, "stable", None);
        assert!(updates.send(CHECK).await.contains(r#"<updatecheck status="ok">"#));
    }
}

#[tokio::test]
async fn a_group_without_a_package_and_a_machine_without_an_id_are_refused() {
    let updates = Updates::new();
    updates.nebraska.add_group(APP, "stable");
    assert!(updates.send(CHECK).await.contains("error-noPackageFound"));
    let answer = updates.post(request("", "1.0.0", "stable", CHECK)).await;
    assert!(answer.contains("error-instanceRegistrationFailed"), "{answer}");
}

#[tokio::test]
async fn a_test_can_wait_for_a_request() {
    let updates = Updates::offering("2.0.0");
    let completed = |requests: &[trident_lab::nebraska::OmahaRequest]| {
        requests.iter().any(|request| request.processed && request.events() == [(13, 1)])
    };
    let started = event(13, 1, "");
    let (found, _) =
        tokio::join!(updates.nebraska.wait_for(PATIENCE, completed), updates.send(&started));
    let request = found.unwrap().remove(0);
    assert_eq!(request.updater_version(), Some("agent-1.0"));
    assert_eq!((request.os_arch(), request.os_version()), (Some("amd64"), Some("1.0.0")));
    let never = updates.nebraska.wait_for(Duration::from_millis(20), |_| false);
    assert!(never.await.is_err());
}
