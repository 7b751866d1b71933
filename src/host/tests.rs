use std::fs::File;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

/// What stands in for a version that cannot be read.
const FALLBACKS: [(&str, Option<&str>); 3] =
    [("always", Some("0.0.0")), ("error", None), ("a\nb $x", Some("a\nb $x"))];

fn how(fallback: &str) -> CurrentVersion {
    let fallback = match fallback {
        "always" => Fallback::Zero,
        "error" => Fallback::Error,
        other => Fallback::Verbatim(other.to_owned()),
    };
    CurrentVersion { path: "/etc/release".into(), key: "BUILD".to_owned(), fallback }
}

/// A tree whose `/etc/release` was made by this.
fn tree(make: impl Fn(&Path)) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("etc")).unwrap();
    make(&root.path().join("etc/release"));
    root
}

fn write(path: &Path, bytes: &[u8]) {
    File::create(path).unwrap().write_all(bytes).unwrap();
}

fn node(path: &Path, kind: FileType, device: u64) {
    mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, device).unwrap();
}

/// Reads it, in a thread that may hang.
fn version(root: &Path, fallback: &str) -> Result<String, HostError> {
    let (host, how) = (Host::new(root), how(fallback));
    let (sender, answer) = mpsc::channel();
    std::thread::spawn(move || sender.send(host.version(&how)));
    answer.recv_timeout(Duration::from_secs(20)).expect("it hangs")
}

#[test]
fn a_version_is_read_from_any_file_under_any_key() {
    let root = tree(|path| write(path, b"VERSION_ID=1\nBUILD=\"202606.29.0\"\n"));
    let elsewhere = tree(|path| {
        write(&path.with_file_name("real"), b"BUILD=202606.29.0");
        symlink("real", path).unwrap();
    });
    for root in [root.path(), elsewhere.path()] {
        for (fallback, _) in FALLBACKS {
            assert_eq!(version(root, fallback).unwrap(), "202606.29.0");
        }
    }
}

type Make = &'static dyn Fn(&Path);

/// What is there instead of a version, and what is said of it under `error`.
const UNREADABLE: [(&str, Make, &str); 15] = [
    ("nothing", &|_| (), "cannot read /etc/release"),
    ("an empty file", &|path| write(path, b""), "no usable BUILD in /etc/release"),
    ("another key", &|path| write(path, b"VERSION_ID=1\n"), "no usable BUILD"),
    ("an empty value", &|path| write(path, b"BUILD=\n"), "no usable BUILD"),
    ("an open quote", &|path| write(path, b"BUILD=\"1\n"), "no usable BUILD"),
    ("no UTF-8 in the value", &|path| write(path, b"BUILD=1\xff\n"), "no usable BUILD"),
    ("NULs", &|path| write(path, &[0; 4096]), "no usable BUILD"),
    ("more than a version", &|path| write(path, &of_length(257)), "no usable BUILD"),
    ("a directory", &|path| std::fs::create_dir(path).unwrap(), "cannot read /etc/release"),
    ("a pipe", &|path| node(path, FileType::Fifo, 0), "cannot read /etc/release"),
    ("a socket", &|path| node(path, FileType::Socket, 0), "cannot read /etc/release"),
    ("a device without end", &|path| symlink("/dev/zero", path).unwrap(), "cannot read"),
    ("a terminal", &|path| symlink("/dev/ptmx", path).unwrap(), "cannot read"),
    ("a loop", &|path| symlink("release", path).unwrap(), "cannot read /etc/release"),
    ("100 MB", &|path| File::create(path).unwrap().set_len(100_000_000).unwrap(), "is larger than"),
];

fn of_length(bytes: usize) -> Vec<u8> {
    format!("BUILD={}\n", "1".repeat(bytes)).into()
}

#[test]
fn a_version_may_be_as_long_as_one_that_is_asked_for() {
    let root = tree(|path| write(path, &of_length(256)));
    assert_eq!(version(root.path(), "error").unwrap().len(), 256);
}

#[test]
fn a_version_that_cannot_be_read_is_what_the_settings_say() {
    for (what, make, said) in UNREADABLE {
        let root = tree(make);
        for (fallback, expected) in FALLBACKS {
            let version = version(root.path(), fallback);
            match expected {
                Some(expected) => assert_eq!(version.unwrap(), expected, "{what}"),
                None => {
                    let problem = version.unwrap_err().to_string();
                    assert!(problem.contains(said), "{what}: {problem}");
                    assert!(problem.contains("/etc/release"), "{what}: {problem}");
                }
            }
        }
    }
}

/// Another line may hold anything.
#[test]
fn what_is_no_utf8_elsewhere_does_no_harm() {
    let root = tree(|path| write(path, b"NAME=\xff\xfe\n\x80\nBUILD=1\nOTHER=\xff"));
    assert_eq!(version(root.path(), "error").unwrap(), "1");
}

/// A file may grow up to the limit, and be read; one that has no size is read, too.
#[test]
fn the_limit_is_of_what_is_read() {
    let long = [b"BUILD=1\n".as_slice(), &vec![b'#'; 1024 * 1024 - 8]].concat();
    let root = tree(|path| write(path, &long));
    assert_eq!(version(root.path(), "error").unwrap(), "1");
    let root = tree(|path| write(path, &[long.as_slice(), b"#"].concat()));
    assert!(matches!(version(root.path(), "error"), Err(HostError::TooLarge { .. })));
    let boot_id = Host::new("/").boot_id().unwrap();
    assert_eq!(boot_id.len(), 36, "of a file below /proc: {boot_id}");
}
