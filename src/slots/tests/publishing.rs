use std::fs;

use super::super::{Report, Slot};
use super::{Host, entry, link_to};

const LINKS: &str = "/run/extensions";

#[test]
fn strangers_keep_what_they_put_there() {
    let host = Host::new();
    host.set(Slot::A, &[entry("sysext", "tools", "tools")]);
    host.link("/run/extensions/theirs.raw", "/opt/theirs.raw");
    host.write("/run/extensions/image.raw", "an image of theirs");
    host.write("/run/extensions/tree/usr/lib/x", "a directory of theirs");
    for _ in 0..2 {
        assert_eq!(host.load(Slot::A).failure, None);
        let expected = [
            "image.raw".to_owned(),
            "theirs.raw -> /opt/theirs.raw".to_owned(),
            link_to(Slot::A, "sysexts/tools.raw"),
            "tree".to_owned(),
        ];
        assert_eq!(host.links(LINKS), expected);
        let inside = fs::read_to_string(host.at("/run/extensions/tree/usr/lib/x")).unwrap();
        assert_eq!(inside, "a directory of theirs");
        assert_eq!(fs::read_dir(host.at("/run")).unwrap().count(), 1);
    }
}

#[test]
fn a_name_that_a_stranger_has_fails_and_touches_nothing() {
    let host = Host::new();
    host.set(Slot::A, &[entry("sysext", "tools", "tools"), entry("sysext", "more", "more")]);
    host.link("/run/extensions/tools.raw", "/opt/theirs.raw");
    let failure = host.load(Slot::A).failure.unwrap();
    assert!(failure.reason.contains("tools.raw, and it is not ours"), "{failure:?}");
    assert_eq!(failure.step, "sysexts");
    assert_eq!(host.links(LINKS), ["tools.raw -> /opt/theirs.raw"]);
}

#[test]
fn another_set_takes_the_place_of_the_first_whole() {
    let host = Host::new();
    host.set(Slot::A, &[entry("sysext", "tools", "tools"), entry("sysext", "more", "more")]);
    host.set(Slot::B, &[entry("sysext", "other", "other")]);
    host.load(Slot::A);
    assert_eq!(host.links(LINKS).len(), 2);
    host.load(Slot::B);
    assert_eq!(host.links(LINKS), [link_to(Slot::B, "sysexts/other.raw")]);
}

/// A run that was killed before its rename leaves the new directory half made.
#[test]
fn what_a_killed_run_left_is_no_hindrance() {
    let host = Host::new();
    host.set(Slot::A, &[entry("sysext", "tools", "tools")]);
    host.write("/run/extensions.new/half", "");
    assert_eq!(host.load(Slot::A).failure, None);
    assert_eq!(host.links(LINKS), [link_to(Slot::A, "sysexts/tools.raw")]);
}

/// A link is the tree's own, not this machine's: whatever of `/run` it stands for.
#[test]
fn a_link_in_the_tree_stays_in_the_tree() {
    for linked in ["/run", "/run/trident"] {
        let host = Host::new();
        host.set(Slot::A, &[entry("sysext", "tools", "tools")]);
        host.directory("/elsewhere");
        // Of the two, `/run` is there already.
        drop(fs::remove_dir(host.at(linked)));
        host.link(linked, "/elsewhere");
        let report = host.load(Slot::A);
        assert_eq!(report.failure, None, "{linked}");
        report.write(&host.tree()).unwrap();
        assert_eq!(Report::read(&host.tree()), Some(report), "{linked}");
        let expected =
            if linked == "/run" { "trident/slot-loader.json" } else { "slot-loader.json" };
        assert!(host.at("/elsewhere").join(expected).is_file(), "{linked}");
        let links = if linked == "/run" { "/elsewhere/extensions" } else { LINKS };
        assert_eq!(host.links(links), [link_to(Slot::A, "sysexts/tools.raw")], "{linked}");
    }
}
