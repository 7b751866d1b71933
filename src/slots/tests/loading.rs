use std::fs;
use std::path::Path;

use serde_json::json;

use super::super::{Kind, Mode, Outcome, Report, Slot, Strategy, load};
use super::{Host, entry, image, in_store, link_to, optional};

const SYSEXTS: &str = "/run/extensions";
const CONFEXTS: &str = "/run/confexts";

fn two_kinds(host: &Host) {
    host.set(Slot::A, &[entry("sysext", "tools", "tools"), entry("confext", "conf", "conf")]);
}

#[test]
fn each_slot_gets_its_own_set() {
    let host = Host::new();
    two_kinds(&host);
    host.set(Slot::B, &[entry("sysext", "other", "other")]);
    let report = host.load(Slot::A);
    assert_eq!(report.failure, None);
    assert_eq!(
        (report.outcome, report.slot, report.mode),
        (Outcome::Published, Some(Slot::A), Some(Mode::Managed))
    );
    let published: Vec<_> = report.published.iter().map(|it| (it.kind, it.name.as_str())).collect();
    assert_eq!(published, [(Kind::Sysext, "tools"), (Kind::Confext, "conf")]);
    assert_eq!(host.links(SYSEXTS), [link_to(Slot::A, "sysexts/tools.raw")]);
    assert_eq!(host.links(CONFEXTS), [link_to(Slot::A, "confexts/conf.raw")]);
    host.load(Slot::B);
    assert_eq!(host.links(SYSEXTS), [link_to(Slot::B, "sysexts/other.raw")]);
    assert_eq!(host.links(CONFEXTS), [""; 0]);
}

#[test]
fn nothing_slotted_is_a_success_that_publishes_nothing() {
    let none = |_: &Host| {};
    let empty = |host: &Host| host.directory("/sysroot/var/trident/extensions/a");
    let shared = |host: &Host| {
        host.manifest(Slot::A, &json!({ "mode": "shared", "extensions": [] }));
    };
    let other = |host: &Host| host.set(Slot::B, &[entry("sysext", "other", "other")]);
    let cases: [(&str, Change<'_>); 4] = [
        ("no store", &none),
        ("no manifest", &empty),
        ("shared", &shared),
        ("only the other slot's", &other),
    ];
    for (case, prepare) in cases {
        let host = Host::new();
        prepare(&host);
        let report = host.load(Slot::A);
        assert_eq!(report.outcome, Outcome::Nothing, "{case}: {report:?}");
        assert_eq!(host.links(SYSEXTS), [""; 0], "{case}");
    }
}

/// What is done to a host.
type Change<'a> = &'a dyn Fn(&Host);

/// What is done to a whole store, where it fails, and a word of the reason.
#[test]
fn a_failed_load_publishes_nothing() {
    let tools = in_store(Slot::A, "sysexts/tools.raw");
    let manifest = in_store(Slot::A, "manifest.json");
    let remove = |host: &Host, path: &str| fs::remove_file(host.at(path)).unwrap();
    let cases: [(&str, Change<'_>, &str, &str); 10] = [
        ("a required image is gone", &|host| remove(host, &tools), "images", "No such file"),
        ("it is shorter", &|host| host.write(&tools, "hsqs"), "images", "has 4 bytes, and 9"),
        (
            "it is garbage of its size",
            &|host| host.write(&tools, "xxxxxxxxx"),
            "images",
            "no file system",
        ),
        (
            "it is a link to a good one",
            &|host| {
                fs::rename(host.at(&tools), host.at("/elsewhere")).unwrap();
                host.link(&tools, host.at("/elsewhere").to_str().unwrap());
            },
            "images",
            "not a regular file",
        ),
        (
            "its directory is a link",
            &|host| {
                let sysexts = in_store(Slot::A, "sysexts");
                fs::rename(host.at(&sysexts), host.at("/elsewhere")).unwrap();
                host.link(&sysexts, host.at("/elsewhere").to_str().unwrap());
            },
            "images",
            "its directory is a link",
        ),
        (
            "it is a pipe",
            &|host| {
                remove(host, &tools);
                let made = std::process::Command::new("mkfifo").arg(host.at(&tools)).status();
                assert!(made.unwrap().success());
            },
            "images",
            "not a regular file",
        ),
        (
            "a later manifest",
            &|host| host.write(&manifest, r#"{"schemaVersion":"2.0","new":1}"#),
            "manifest",
            "newer stager",
        ),
        ("no manifest", &|host| host.write(&manifest, ""), "manifest", "no manifest"),
        (
            "a huge manifest",
            &|host| host.write(&manifest, " ".repeat(1024 * 1024 + 1)),
            "manifest",
            "larger than",
        ),
        (
            "the manifest is a link",
            &|host| {
                remove(host, &manifest);
                host.link(&manifest, "/dev/zero");
            },
            "manifest",
            "not a regular file",
        ),
    ];
    for (case, spoil, step, word) in cases {
        let host = Host::new();
        two_kinds(&host);
        host.load(Slot::A);
        assert_eq!(host.links(SYSEXTS).len(), 1);
        spoil(&host);
        let report = host.load(Slot::A);
        let failure = report.failure.expect(case);
        assert_eq!(failure.step, step, "{case}");
        assert!(failure.reason.contains(word), "{case}: {}", failure.reason);
        assert_eq!(report.outcome, Outcome::Failed, "{case}");
        assert_eq!((host.links(SYSEXTS).len(), host.links(CONFEXTS).len()), (0, 0), "{case}");
        assert!(report.published.is_empty(), "{case}");
    }
}

#[test]
fn an_optional_one_that_fails_is_left_out() {
    let host = Host::new();
    host.set(
        Slot::A,
        &[
            optional(entry("sysext", "gone", "gone")),
            optional(entry("sysext", "garbage", "garbage")),
            entry("sysext", "tools", "tools"),
        ],
    );
    fs::remove_file(host.at(&in_store(Slot::A, "sysexts/gone.raw"))).unwrap();
    host.write(&in_store(Slot::A, "sysexts/garbage.raw"), "noimage-xxx");
    let report = host.load(Slot::A);
    assert_eq!(report.outcome, Outcome::Published);
    let left: Vec<_> = report.left_out.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(left, ["gone", "garbage"]);
    assert!(report.left_out.iter().all(|it| !it.reason.is_empty()));
    assert_eq!(host.links(SYSEXTS), [link_to(Slot::A, "sysexts/tools.raw")]);
}

#[test]
fn only_the_full_check_sees_other_content() {
    let host = Host::new();
    host.set(Slot::A, &[entry("sysext", "tools", "tools")]);
    host.write(&in_store(Slot::A, "sysexts/tools.raw"), image("other"));
    assert_eq!(host.load(Slot::A).failure, None);
    host.write("/proc/cmdline", "trident.slot_verify=full\n");
    let failure = host.load(Slot::A).failure.unwrap();
    assert!(failure.reason.contains("SHA-384"), "{failure:?}");
    host.write(&in_store(Slot::A, "sysexts/tools.raw"), image("tools"));
    assert_eq!(host.load(Slot::A).failure, None);
}

#[test]
fn the_kernel_argument_names_slot_store_and_strategy() {
    let host = Host::new();
    host.set(Slot::B, &[entry("confext", "conf", "conf")]);
    fs::create_dir_all(host.at("/sysroot/srv")).unwrap();
    fs::rename(host.at("/sysroot/var/trident/extensions"), host.at("/sysroot/srv/ext")).unwrap();
    let line = "trident.slot=b trident.extension_store=/srv/ext trident.confext=native trident.update_boot=1";
    host.write("/proc/cmdline", line);
    let mut options = host.options(None);
    options.confext = None;
    let report = load(&options);
    assert_eq!(
        (report.outcome, report.slot, report.update_boot),
        (Outcome::Published, Some(Slot::B), true)
    );
    assert_eq!(host.links(CONFEXTS), ["conf.raw -> /srv/ext/b/confexts/conf.raw"]);
    // What the program is called with goes before.
    options.slot = Some(Slot::A);
    options.confext = Some(Strategy::None);
    let report = load(&options);
    assert_eq!((report.outcome, report.slot), (Outcome::Nothing, Some(Slot::A)));
    assert_eq!(host.links(CONFEXTS), [""; 0]);
}

#[test]
fn what_cannot_be_told_is_a_failure_and_no_guess() {
    let host = Host::new();
    two_kinds(&host);
    for (line, step) in [("quiet", "slot"), ("trident.slot=c", "command line")] {
        host.write("/proc/cmdline", line);
        let failure = load(&host.options(None)).failure.unwrap();
        assert_eq!(failure.step, step, "{failure:?}");
        assert_eq!(host.links(SYSEXTS), [""; 0]);
    }
}

#[test]
fn a_store_is_found_as_its_own_root_sees_it() {
    let host = Host::new();
    two_kinds(&host);
    host.directory("/sysroot/data");
    fs::rename(host.at("/sysroot/var"), host.at("/sysroot/data/var")).unwrap();
    host.link("/sysroot/var", "/data/var");
    assert_eq!(host.load(Slot::A).outcome, Outcome::Published);
    fs::remove_file(host.at("/sysroot/var")).unwrap();
    host.link("/sysroot/var", "../../../../../../data/var");
    assert_eq!(host.load(Slot::A).outcome, Outcome::Published);
    let mut odd = host.options(Some(Slot::A));
    odd.store = Some("/var/../etc".into());
    assert_eq!(load(&odd).outcome, Outcome::Failed);
    odd.store = Some("var".into());
    assert_eq!(load(&odd).outcome, Outcome::Failed);
}

#[test]
fn the_report_says_each_step_and_is_read_again() {
    let host = Host::new();
    two_kinds(&host);
    let report = host.load(Slot::A);
    let steps: Vec<_> = report.steps.iter().map(|it| it.step.as_str()).collect();
    assert_eq!(steps, ["command line", "slot", "manifest", "images", "sysexts", "confexts"]);
    assert_eq!(report.published[0].image, Path::new("/var/trident/extensions/a/sysexts/tools.raw"));
    assert_eq!(Report::read(&host.tree()), None);
    report.write(&host.tree()).unwrap();
    assert_eq!(Report::read(&host.tree()), Some(report));
}
