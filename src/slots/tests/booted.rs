//! A `/sys` for each layering, as the kernel shows it.

use std::path::Path;

use super::super::{Slot, booted_slot, chain};
use super::Host;

/// A device: its number, its name, what is in its directory.
struct Device(&'static str, &'static str, &'static [(&'static str, &'static str)]);

const fn partition(
    number: &'static str,
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
) -> Device {
    Device(number, name, files)
}

/// Devices in `/sys/devices/<disk>/<name>`; a name with a slash is a partition of a disk.
fn host(devices: &[Device], mounts: &str) -> Host {
    let host = Host::new();
    for Device(number, path, files) in devices {
        let name = path.rsplit('/').next().unwrap();
        host.directory(&format!("/sys/devices/{path}"));
        host.link(&format!("/sys/dev/block/{number}"), &format!("../../devices/{path}"));
        host.link(&format!("/sys/class/block/{name}"), &format!("../../devices/{path}"));
        for (file, text) in *files {
            match text.strip_prefix("-> ") {
                Some(to) => host.link(&format!("/sys/devices/{path}/{file}"), to),
                None => host.write(&format!("/sys/devices/{path}/{file}"), text),
            }
        }
    }
    host.write("/proc/self/mountinfo", mounts);
    host
}

const ROOT_A: Device = partition(
    "8:2",
    "sda/sda2",
    &[("partition", "2\n"), ("uevent", "DEVTYPE=partition\nPARTN=2\nPARTNAME=root-a\n")],
);
const ROOT_B: Device =
    partition("8:3", "sda/sda3", &[("partition", "3\n"), ("uevent", "PARTNAME=root-b\n")]);
const USR_B: Device =
    partition("8:5", "sda/sda5", &[("partition", "5\n"), ("uevent", "PARTNAME=usr_b\n")]);
const USR_HASH: Device =
    partition("8:6", "sda/sda6", &[("partition", "6\n"), ("uevent", "PARTNAME=usr-verity\n")]);
const DATA: Device =
    partition("8:7", "sda/sda7", &[("partition", "7\n"), ("uevent", "PARTNAME=data\n")]);
const DISK: Device = Device("8:0", "sda", &[("uevent", "DEVTYPE=disk\n")]);
const VERITY: Device = Device(
    "253:0",
    "dm-0",
    &[
        ("dm/name", "usr\n"),
        ("slaves/sda5", "-> ../../sda/sda5"),
        ("slaves/sda6", "-> ../../sda/sda6"),
    ],
);
const CRYPT: Device =
    Device("253:1", "dm-1", &[("dm/name", "cry\n"), ("slaves/dm-0", "-> ../../dm-0")]);
const LOOP_ON_A: Device = Device("7:0", "loop0", &[("loop/backing_file", "/images/usr.img\n")]);
const LOOP_PART: Device =
    partition("259:1", "loop0/loop0p1", &[("partition", "1\n"), ("uevent", "DEVTYPE=partition\n")]);
const BOTH: Device = Device(
    "253:2",
    "dm-2",
    &[
        ("dm/name", "lv\n"),
        ("slaves/sda2", "-> ../../sda/sda2"),
        ("slaves/sda3", "-> ../../sda/sda3"),
    ],
);
const RING: Device =
    Device("253:3", "dm-3", &[("dm/name", "ring\n"), ("slaves/dm-3", "-> ../../dm-3")]);

const ALL: [Device; 12] =
    [ROOT_A, ROOT_B, USR_B, USR_HASH, DATA, DISK, VERITY, CRYPT, LOOP_ON_A, LOOP_PART, BOTH, RING];

#[test]
fn the_slot_is_the_name_of_what_backs_the_root() {
    let cases = [
        ("a partition", "1 0 8:2 / /sysroot rw - ext4 /dev/sda2 rw", Ok(Slot::A)),
        ("the other one", "1 0 8:3 / /sysroot rw - ext4 /dev/sda3 rw", Ok(Slot::B)),
        (
            "usr goes before root",
            "1 0 8:2 / /sysroot rw - ext4 /dev/sda2 rw\n2 1 8:5 / /sysroot/usr ro - ext4 /dev/sda5 ro",
            Ok(Slot::B),
        ),
        (
            "a newer mount hides",
            "1 0 8:2 / /sysroot rw - ext4 x rw\n2 1 8:3 / /sysroot rw - ext4 x rw",
            Ok(Slot::B),
        ),
        (
            "verity: data and hash",
            "1 0 253:0 / /sysroot/usr ro - erofs /dev/mapper/usr ro",
            Ok(Slot::B),
        ),
        ("crypt over verity", "1 0 253:1 / /sysroot ro - ext4 /dev/mapper/cry ro", Ok(Slot::B)),
        (
            "a loop over a file on a partition",
            "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n2 1 7:0 / /sysroot ro - ext4 /dev/loop0 ro",
            Ok(Slot::A),
        ),
        (
            "a partition within a loop",
            "1 0 8:2 / /images rw - ext4 /dev/sda2 rw\n2 1 259:1 / /sysroot ro - ext4 /dev/loop0p1 ro",
            Ok(Slot::A),
        ),
        ("btrfs has its own number", "1 0 0:31 /@ /sysroot rw - btrfs /dev/sda3 rw", Ok(Slot::B)),
        (
            "btrfs on a mapped device",
            "1 0 0:31 /@ /sysroot rw - btrfs /dev/mapper/usr rw",
            Ok(Slot::B),
        ),
        ("no suffix", "1 0 8:7 / /sysroot rw - ext4 /dev/sda7 rw", Err("[\"data\"]")),
        ("a whole disk", "1 0 8:0 / /sysroot rw - ext4 /dev/sda rw", Err("no name")),
        ("of both slots", "1 0 253:2 / /sysroot rw - ext4 /dev/mapper/lv rw", Err("both slots")),
        ("a ring", "1 0 253:3 / /sysroot rw - ext4 /dev/mapper/ring rw", Err("layers")),
        ("not mounted", "1 0 8:2 / / rw - ext4 /dev/sda2 rw", Err("nothing is mounted")),
        ("no device", "1 0 0:40 / /sysroot rw - overlay overlay rw", Err("no block device")),
        ("an unknown device", "1 0 9:9 / /sysroot rw - ext4 /dev/md0 rw", Err("not in /sys")),
        (
            "an unknown mapped device",
            "1 0 9:9 / /sysroot rw - ext4 /dev/mapper/x rw",
            Err("not in /sys"),
        ),
        (
            "a loop over a file on nothing",
            "1 0 7:0 / /sysroot ro - ext4 /dev/loop0 ro",
            Err("nothing is mounted at /images/usr.img"),
        ),
    ];
    for (case, mounts, expected) in cases {
        let host = host(&ALL, mounts);
        let found = booted_slot(&host.tree(), Path::new("/sysroot")).map_err(|it| chain(&it));
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(*found, expected, "{case}"),
            (Err(said), Err(word)) => assert!(said.contains(word), "{case}: {said}"),
            _ => panic!("{case}: {found:?}"),
        }
    }
}

#[test]
fn on_a_running_host_it_is_the_root_itself() {
    let host =
        host(&ALL, "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n2 1 8:5 / /usr ro - ext4 /dev/sda5 ro");
    assert_eq!(booted_slot(&host.tree(), Path::new("/")).unwrap(), Slot::B);
}

#[test]
fn only_a_suffix_counts() {
    for (name, slot) in [
        ("usr-a", Some(Slot::A)),
        ("usr_b", Some(Slot::B)),
        ("a", None),
        ("usra", None),
        ("usr-A", None),
        ("a-usr", None),
        ("usr-a ", None),
        ("", None),
    ] {
        let host = Host::new();
        host.directory("/sys/devices/sda1");
        host.write("/sys/devices/sda1/uevent", format!("PARTNAME={name}\n"));
        host.link("/sys/dev/block/8:1", "../../devices/sda1");
        host.write("/proc/self/mountinfo", "1 0 8:1 / /sysroot rw - ext4 /dev/sda1 rw\n");
        assert_eq!(booted_slot(&host.tree(), Path::new("/sysroot")).ok(), slot, "{name:?}");
    }
}
