use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::super::{DEFAULT_STORE, LastFailure, Report, Slot, recover};
use super::{Host, entry, in_store};

fn said(result: &str, status: &str) -> BTreeMap<String, String> {
    let pairs = [("MONITOR_SERVICE_RESULT", result), ("MONITOR_EXIT_STATUS", status)];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn recovered(host: &Host, said: &BTreeMap<String, String>) -> LastFailure {
    recover(&host.tree(), Path::new("/sysroot"), None, said).unwrap()
}

#[test]
fn the_loaders_own_reason_goes_first() {
    let host = Host::new();
    host.set(Slot::B, &[entry("sysext", "tools", "tools")]);
    std::fs::remove_file(host.at(&in_store(Slot::B, "sysexts/tools.raw"))).unwrap();
    host.load(Slot::B).write(&host.tree()).unwrap();
    let failure = recovered(&host, &said("exit-code", "1"));
    assert!(failure.reason.starts_with("images: the required sysext tools"), "{failure:?}");
    assert_eq!(failure.slot, Some(Slot::B));
    assert_eq!(failure.boot_id.as_deref(), Some("4d3c2b1a"));
    let path = host.at("/sysroot/var/trident/extensions/last-failure.json");
    let kept: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(kept["reason"], failure.reason);
    assert_eq!(kept["result"], "exit-code");
}

#[test]
fn a_loader_that_said_nothing_is_told_by_systemd() {
    let host = Host::new();
    host.directory("/sysroot/var/trident/extensions");
    for (said, word) in [
        (said("timeout", "TERM"), "(timeout, TERM)"),
        (said("core-dump", "ABRT"), "(core-dump, ABRT)"),
        (BTreeMap::new(), "did not come to its end"),
    ] {
        // Before it wrote anything, and while it was at work.
        for _ in 0..2 {
            let failure = recovered(&host, &said);
            assert!(failure.reason.contains(word), "{failure:?}");
            assert_eq!(failure.slot, None);
            Report::begun(DEFAULT_STORE.into()).write(&host.tree()).unwrap();
        }
    }
}

#[test]
fn without_a_store_the_reason_is_lost_and_said_to_be() {
    let host = Host::new();
    let lost = recover(&host.tree(), Path::new("/sysroot"), None, &BTreeMap::new());
    assert!(lost.unwrap_err().to_string().contains("no store"));
}
