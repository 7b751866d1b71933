//! Staging with real images: what is refused, what is reused, and what a crash at any step leaves.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "they are the product's rules on files")]
#![allow(clippy::too_many_lines, reason = "a table is as long as its rows")]

mod common;
mod crash;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use common::{Format, make_image, needed, put};
use serde_json::{Value, json};
use sha2::{Digest, Sha384};
use tempfile::TempDir;
use trident_slots::{
    Event, Files, Proof, Report, Slot, Staged, Staging, Store, Tree, What, chain, confirm_boot,
    stage,
};

const STORE: &str = "/var/trident/extensions";

/// A host whose partitions are of both slots, with a store on a third one; slot a runs.
struct Host {
    dir: TempDir,
}

impl Host {
    fn new() -> Result<Self> {
        needed()?;
        let host = Self { dir: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))? };
        host.write(
            "/proc/self/mountinfo",
            "1 0 8:1 / / ro - ext4 /dev/sda1 ro\n2 1 8:3 / /var rw - ext4 /dev/sda3 rw\n",
        )?;
        for (number, name) in [(1, "root-a"), (2, "root-b"), (3, "data")] {
            let device = format!("/sys/devices/sda{number}");
            host.write(&format!("{device}/uevent"), format!("PARTNAME={name}\n"))?;
            for link in [format!("dev/block/8:{number}"), format!("class/block/sda{number}")] {
                let link = host.at(&format!("/sys/{link}"));
                fs::create_dir_all(link.parent().context("no parent")?)?;
                std::os::unix::fs::symlink(format!("../../devices/sda{number}"), link)?;
            }
        }
        host.write("/etc/os-release", "ID=lab\nVERSION_ID=1\n")?;
        host.write("/run/trident/slot-loader.json", REPORT)?;
        Ok(host)
    }

    fn tree(&self) -> Tree {
        Tree::new(self.dir.path())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.tree().at(path)
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> Result<()> {
        put(self.at(path), bytes)
    }

    fn store(&self) -> Store {
        Store::open(&self.tree(), Path::new(STORE)).unwrap().unwrap()
    }

    /// An image at `/images/<content>/<name>.raw`, and the entry that wants it.
    fn image(&self, kind: &str, name: &str, content: &str, release: &str) -> Result<Value> {
        let tree = self.dir.path().join("build").join(kind).join(format!("{name}-{content}"));
        let top = if kind == "sysext" { "usr/lib" } else { "etc" };
        put(tree.join(top).join("content"), content)?;
        put(tree.join(format!("{top}/extension-release.d/extension-release.{name}")), release)?;
        let path = format!("/images/{content}/{name}.raw");
        let format = if kind == "sysext" { Format::Squashfs } else { Format::Erofs };
        make_image(&tree, &self.at(&path), format)?;
        self.wanted(&path)
    }

    fn sysext(&self, name: &str, content: &str) -> Result<Value> {
        self.image("sysext", name, content, &format!("ID=_any\nSYSEXT_ID={name}\n"))
    }

    fn wanted(&self, path: &str) -> Result<Value> {
        let hash = Sha384::digest(fs::read(self.at(path))?);
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(json!({ "url": format!("file://{path}"), "sha384": hash, "scope": "slotted" }))
    }

    fn staging(&self, os: Value) -> Staging {
        Staging {
            tree: self.tree(),
            wanted: serde_json::from_value(json!({ "os": os, "storage": {} })).unwrap(),
            store: None,
            bundle: None,
            booted: None,
            target: None,
            os_version: Some("2".to_owned()),
            first: false,
            wait: false,
        }
    }

    fn stage(&self, os: Value) -> Result<Staged, String> {
        run(&self.staging(os))
    }

    /// The names in a slot's set, each with its hash's first digits; every image is whole.
    fn set(&self, slot: Slot) -> Vec<String> {
        let store = self.store();
        assert_eq!(store.damages().unwrap(), [], "{slot}");
        let set = store.manifest(slot).unwrap();
        let entries = set.map(|it| it.extensions).unwrap_or_default();
        entries.iter().map(|it| format!("{} {}", it.name, &it.sha384.to_string()[..8])).collect()
    }

    fn leftovers(&self) -> Vec<String> {
        let entries = fs::read_dir(self.at(STORE)).into_iter().flatten().flatten();
        let names = entries.map(|it| it.file_name().to_string_lossy().into_owned());
        names
            .filter(|it| !matches!(it.as_str(), "a" | "b" | ".lock" | "slot-loader.pending"))
            .collect()
    }
}

const REPORT: &str = r#"{"schemaVersion":"1.0","loaderVersion":"0.1.0","outcome":"nothing",
    "store":"/var/trident/extensions","updateBoot":false,"published":[],"leftOut":[],"steps":[]}"#;

fn run(staging: &Staging) -> Result<Staged, String> {
    stage(staging, &mut Files::new(staging.tree.clone()), &mut |_| {})
        .map_err(|problem| chain(&problem))
}

fn entry_of(wanted: &Value) -> String {
    let url = wanted["url"].as_str().unwrap();
    let name = Path::new(url).file_stem().unwrap().to_str().unwrap();
    format!("{name} {}", &wanted["sha384"].as_str().unwrap()[..8])
}

#[test]
fn a_set_is_staged_for_the_slot_that_does_not_run() -> Result<()> {
    let host = Host::new()?;
    let tools = host.sysext("tools", "one")?;
    let conf =
        host.image("confext", "conf", "one", "ID=_any\nCONFEXT_ID=conf\nVERSION_ID=\"3\"\n")?;
    let shared = json!({ "url": "https://example.com/x.raw", "sha384": "0".repeat(96), "path": "/opt/x.raw" });
    let staged = host.stage(json!({ "sysexts": [&tools, shared], "confexts": [&conf] })).unwrap();
    ensure!(staged == Staged::Set { slot: Slot::B, extensions: 2, reused: 0 }, "{staged:?}");
    ensure!(host.set(Slot::B) == [entry_of(&tools), entry_of(&conf)]);
    let set = host.store().manifest(Slot::B)?.context("no set")?;
    ensure!(set.extensions[1].release.get("VERSION_ID") == Some("3"), "{set:?}");
    ensure!(set.os_version.as_deref() == Some("2") && set.extensions[0].required);
    ensure!(host.store().proof()? == Proof::Pending(Slot::B));
    ensure!(host.leftovers().is_empty(), "{:?}", host.leftovers());

    ensure!(host.store().prune(false).unwrap_err().to_string().contains("waits for the boot"));
    ensure!(host.store().confirm()? && !host.store().confirm()?);
    host.write(&format!("{STORE}/b/sysexts/unnamed.raw"), "")?;
    ensure!(host.store().prune(false)? == [host.at(&format!("{STORE}/b/sysexts/unnamed.raw"))]);
    ensure!(host.set(Slot::B).len() == 2);

    let listing = host.store().list(&host.tree())?;
    ensure!(listing.differences.iter().all(|it| it.what == What::OnlyInB), "{listing:?}");
    ensure!(listing.differences.len() == 2 && listing.published.is_some());
    Ok(())
}

/// A committed boot proves the set that it loaded, and no other.
#[test]
fn a_committed_boot_confirms_its_own_set() -> Result<()> {
    let host = Host::new()?;
    let os = json!({ "sysexts": [host.sysext("tools", "one")?] });
    let report = |change: &str, value: Value| -> Report {
        let mut report: Value = serde_json::from_str(REPORT).unwrap();
        report["slot"] = json!("b");
        report[change] = value;
        serde_json::from_value(report).unwrap()
    };
    let good = || report("outcome", json!("published"));
    ensure!(!confirm_boot(&host.tree(), &good())?, "there is no store");
    host.stage(os).unwrap();
    for (case, report) in [
        ("a failed load", report("outcome", json!("failed"))),
        ("the other slot's boot", report("slot", json!("a"))),
        ("an unknown slot", report("slot", Value::Null)),
        ("another store", report("store", json!("/srv/none"))),
    ] {
        ensure!(!confirm_boot(&host.tree(), &report)?, "{case}");
        ensure!(host.store().proof()? == Proof::Pending(Slot::B), "{case}");
    }
    let lock = fs::File::options().write(true).open(host.at(&format!("{STORE}/.lock")))?;
    lock.lock()?;
    ensure!(confirm_boot(&host.tree(), &good()).is_err());
    lock.unlock()?;
    ensure!(confirm_boot(&host.tree(), &good())? && !confirm_boot(&host.tree(), &good())?);
    ensure!(host.store().proof()? == Proof::Proved);
    host.write(&format!("{STORE}/slot-loader.pending"), "{")?;
    ensure!(confirm_boot(&host.tree(), &good())?, "a mark that cannot be read is one");
    Ok(())
}

#[test]
fn what_a_slot_has_is_linked_and_not_copied() -> Result<()> {
    let host = Host::new()?;
    let (one, two) = (host.sysext("one", "first")?, host.sysext("two", "first")?);
    host.stage(json!({ "sysexts": [&one] })).unwrap();
    let mut to_a = host.staging(json!({ "sysexts": [&two, &one] }));
    to_a.booted = Some(Slot::B);
    // Its source is not needed any more.
    fs::remove_file(host.at("/images/first/one.raw"))?;
    let mut reused = Vec::new();
    let staged = stage(&to_a, &mut Files::new(host.tree()), &mut |event| {
        if let Event::Reused { of, from } = event {
            reused.push(format!("{of} {from}"));
        }
    })?;
    ensure!(staged == Staged::Set { slot: Slot::A, extensions: 2, reused: 1 }, "{staged:?}");
    ensure!(reused == ["file:///images/first/one.raw b"], "{reused:?}");
    let file = |slot: &str| host.at(&format!("{STORE}/{slot}/sysexts/one.raw"));
    ensure!(fs::metadata(file("a"))?.ino() == fs::metadata(file("b"))?.ino());
    ensure!(host.set(Slot::A) == [entry_of(&two), entry_of(&one)]);

    // A record is a promise: what was changed since is not taken.
    fs::write(file("b"), "hsqs")?;
    let refused = run(&to_a).unwrap_err();
    ensure!(refused.contains("/images/first/one.raw"), "{refused}");
    Ok(())
}

#[test]
fn what_is_refused_changes_nothing() -> Result<()> {
    let host = Host::new()?;
    let old = host.sysext("old", "old")?;
    host.stage(json!({ "sysexts": [&old] })).unwrap();
    host.store().confirm()?;
    let tools = host.sysext("tools", "one")?;
    let again = host.sysext("tools", "two")?;
    let with = |field: &str, value: Value| {
        let mut entry = tools.clone();
        entry[field] = value;
        entry
    };
    let sysext = |name: &str, release: &str| host.image("sysext", name, "odd", release);
    let odd = |name: &str, fill: &dyn Fn(&Path) -> Result<()>| {
        let tree = host.dir.path().join(name);
        fill(&tree)?;
        let path = format!("/images/{name}.raw");
        make_image(&tree, &host.at(&path), Format::Squashfs)?;
        host.wanted(&path)
    };
    let none = odd("none", &|tree| put(tree.join("usr/lib/x"), ""))?;
    let twice = odd("twice", &|tree| {
        let releases = tree.join("usr/lib/extension-release.d");
        put(releases.join("extension-release.twice"), "SYSEXT_ID=twice\n")?;
        put(releases.join("extension-release.again"), "SYSEXT_ID=again\n")
    })?;
    let linked = odd("linked", &|tree| {
        fs::create_dir_all(tree)?;
        Ok(std::os::unix::fs::symlink("/usr", tree.join("usr"))?)
    })?;
    host.write("/images/garbage.raw", "hsqs, but nothing behind it")?;
    fs::copy(host.at("/images/one/tools.raw"), host.at("/images/renamed.raw"))?;
    let zeros = || json!("0".repeat(96));
    let at_p = |url: &str| json!({ "url": url, "sha384": zeros(), "path": "/p" });
    let for_one_os = host.image("confext", "conf", "x", "ID=lab\nCONFEXT_ID=conf\n")?;
    let in_store = |path: &str| json!({ "sysexts": [&tools], "extensionStore": path });
    let sysexts = |entries: &[&Value]| json!({ "sysexts": entries });
    let cases = [
        ("slotted with a path", sysexts(&[&with("path", json!("/x"))]), "has a path"),
        ("no absolute path", sysexts(&[&with("url", json!("file://x.raw"))]), "absolute path"),
        ("another scheme", sysexts(&[&with("url", json!("ftp://x"))]), "has no URL of file"),
        ("twice", sysexts(&[&tools, &tools]), "stands there twice"),
        ("the same path", sysexts(&[&at_p("file:///x"), &at_p("file:///y")]), "two extensions"),
        ("the same id and name", sysexts(&[&tools, &again]), "another image of the set"),
        (
            "shared mode",
            json!({ "sysexts": [&tools], "extensionMode": "shared" }),
            "mode is shared",
        ),
        ("gone", sysexts(&[&with("url", json!("file:///gone.raw"))]), ""),
        (
            "gone and new",
            sysexts(&[
                &json!({ "url": "file:///gone.raw", "sha384": zeros(), "scope": "slotted" }),
            ]),
            "cannot get file:///gone.raw",
        ),
        ("a directory", sysexts(&[&with("url", json!("file:///images"))]), "regular file"),
        ("other content", sysexts(&[&with("sha384", zeros())]), "SHA-384"),
        ("garbage", sysexts(&[&host.wanted("/images/garbage.raw")?]), "cannot be mounted"),
        ("no extension-release", sysexts(&[&none]), "has 0 extension-release files"),
        ("two of them", sysexts(&[&twice]), "has 2 extension-release files"),
        ("a link in the image", sysexts(&[&linked]), "no plain directory"),
        ("no id", sysexts(&[&sysext("noid", "ID=_any\n")?]), "no SYSEXT_ID"),
        ("an id that goes up", sysexts(&[&sysext("up", "SYSEXT_ID=../x\n")?]), "not a name"),
        ("a field twice", sysexts(&[&sysext("dup", "ID=a\nID=b\n")?]), "line 2"),
        (
            "another file name",
            sysexts(&[&host.wanted("/images/renamed.raw")?]),
            "must be called tools.raw",
        ),
        ("a sysext as confext", json!({ "confexts": [&tools] }), "has 0 extension-release files"),
        ("a confext for one OS", json!({ "confexts": [for_one_os] }), "ID=_any"),
        ("where systemd looks", in_store("/var/lib/extensions/x"), "systemd looks"),
        ("on a slot's volume", in_store("/srv/x"), "volume root-a"),
    ];
    for (case, os, word) in cases {
        let refused = host.stage(os).expect_err(case);
        ensure!(refused.contains(word), "{case}: {refused}");
        ensure!(host.set(Slot::B) == [entry_of(&old)], "{case}");
        ensure!(host.leftovers().is_empty(), "{case}: {:?}", host.leftovers());
        ensure!(host.store().proof()? == Proof::Proved, "{case}");
    }
    // What waited for its boot still does.
    host.stage(sysexts(&[&old])).unwrap();
    host.stage(sysexts(&[&again, &tools])).unwrap_err();
    ensure!(host.store().proof()? == Proof::Pending(Slot::B));
    Ok(())
}

#[test]
fn the_host_must_have_two_slots_and_a_loader() -> Result<()> {
    let host = Host::new()?;
    let os = json!({ "sysexts": [host.sysext("tools", "one")?] });
    let refused = |staging: &Staging, word: &str| {
        let said = run(staging).unwrap_err();
        assert!(said.contains(word), "{said}");
    };
    let mut itself = host.staging(os.clone());
    itself.target = Some(Slot::A);
    refused(&itself, "slot a is the one that runs");
    fs::remove_file(host.at("/run/trident/slot-loader.json"))?;
    refused(&host.staging(os.clone()), "--first");
    ensure!(!host.at(STORE).exists());
    let mut first = host.staging(os.clone());
    first.first = true;
    run(&first).unwrap();

    fs::remove_file(host.at("/sys/devices/sda2/uevent"))?;
    refused(&first, "root-b is absent");
    host.write("/sys/devices/sda1/uevent", "PARTNAME=root\n")?;
    refused(&first, "no A/B volumes");
    Ok(())
}

#[test]
fn nothing_slotted_needs_nothing_and_empties_an_old_set() -> Result<()> {
    let host = Host::new()?;
    let shared =
        json!({ "sysexts": [{ "url": "https://example.com/x", "sha384": "0".repeat(96) }] });
    ensure!(host.stage(shared.clone()).unwrap() == Staged::Unused);
    ensure!(!host.at(STORE).exists());
    let mut with_store = shared.clone();
    with_store["extensionStore"] = json!("/srv/never-made");
    ensure!(host.stage(with_store).unwrap() == Staged::Unused);

    host.stage(json!({ "sysexts": [host.sysext("tools", "one")?] })).unwrap();
    let staged = host.stage(shared).unwrap();
    ensure!(staged == Staged::Set { slot: Slot::B, extensions: 0, reused: 0 });
    ensure!(host.set(Slot::B).is_empty());
    Ok(())
}

#[test]
fn a_sysext_of_another_os_is_a_warning() -> Result<()> {
    let host = Host::new()?;
    let release = |id: &str, name: &str| format!("ID={id}\nSYSEXT_ID={name}\nVERSION_ID=1\n");
    let ours = host.image("sysext", "ours", "x", &release("lab", "ours"))?;
    let theirs = host.image("sysext", "theirs", "x", &release("other", "theirs"))?;
    let mut warned = Vec::new();
    let staging = host.staging(json!({ "sysexts": [ours, theirs] }));
    stage(&staging, &mut Files::new(host.tree()), &mut |event| {
        if let Event::OtherOs { name, id } = event {
            warned.push(format!("{name} {id}"));
        }
    })?;
    ensure!(warned == ["theirs other"], "{warned:?}");
    Ok(())
}

#[test]
fn the_second_staging_says_who_holds_the_lock_or_waits() -> Result<()> {
    let host = Host::new()?;
    let os = json!({ "sysexts": [host.sysext("tools", "one")?] });
    fs::create_dir_all(host.at(STORE))?;
    let lock = fs::File::create(host.at(&format!("{STORE}/.lock")))?;
    lock.lock()?;
    fs::write(host.at(&format!("{STORE}/.lock")), "4711")?;
    let refused = host.stage(os.clone()).unwrap_err();
    ensure!(refused.contains("process 4711"), "{refused}");
    ensure!(host.leftovers().is_empty());
    let mut patient = host.staging(os);
    patient.wait = true;
    let waiting = std::thread::spawn(move || run(&patient));
    drop(lock);
    ensure!(waiting.join().unwrap().is_ok());
    Ok(())
}

#[test]
fn an_image_may_have_a_partition_table() -> Result<()> {
    let host = Host::new()?;
    let tree = host.dir.path().join("build/parted");
    let release = tree.join("usr/lib/extension-release.d/extension-release.parted");
    put(release, "ID=_any\nSYSEXT_ID=of-a-table\n")?;
    make_image(&tree, &host.at("/images/parted.raw"), Format::Partitioned)?;
    host.stage(json!({ "sysexts": [host.wanted("/images/parted.raw")?] })).unwrap();
    let set = host.store().manifest(Slot::B)?.context("no set")?;
    ensure!(set.extensions[0].id.as_str() == "of-a-table", "{set:?}");
    ensure!(host.set(Slot::B).len() == 1);
    Ok(())
}

/// Two versions of one extension, each the image of a slot: the second must not be written over a link to the first.
#[test]
fn two_reused_images_of_one_name_are_refused_and_stay_as_they_are() -> Result<()> {
    let host = Host::new()?;
    let (first, second) = (host.sysext("tools", "first")?, host.sysext("tools", "second")?);
    host.stage(json!({ "sysexts": [&first] })).unwrap();
    let mut to_a = host.staging(json!({ "sysexts": [&second] }));
    to_a.booted = Some(Slot::B);
    run(&to_a).unwrap();
    let refused = host.stage(json!({ "sysexts": [&second, &first] })).unwrap_err();
    ensure!(refused.contains("another image of the set"), "{refused}");
    ensure!(host.set(Slot::A) == [entry_of(&second)] && host.set(Slot::B) == [entry_of(&first)]);
    Ok(())
}

/// The room is taken before anything is copied.
#[test]
fn a_full_disk_is_found_out_at_once() -> Result<()> {
    let host = Host::new()?;
    let old = host.sysext("old", "old")?;
    // 8 TiB of nothing: less than a file may have, and more than a test machine has.
    host.write("/images/huge.raw", "")?;
    fs::File::options().write(true).open(host.at("/images/huge.raw"))?.set_len(8 << 40)?;
    let huge =
        json!({ "url": "file:///images/huge.raw", "sha384": "0".repeat(96), "scope": "slotted" });
    let refused = host.stage(json!({ "sysexts": [old, huge] })).unwrap_err();
    ensure!(refused.contains("no room") && refused.contains("bytes are needed"), "{refused}");
    ensure!(host.leftovers().is_empty() && host.store().manifest(Slot::B)?.is_none());
    Ok(())
}
