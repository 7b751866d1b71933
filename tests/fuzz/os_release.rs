//! The file that holds the running version: any file, by whoever built the image.

use std::fs::File;
use std::io::Write;
use std::sync::Mutex;

use trident_acl_agent::config::{CurrentVersion, Fallback};
use trident_acl_agent::host::Host;

use crate::mutate;

const SEEDS: [&str; 20] = [
    "NAME=\"Azure Container Linux\"\nID=acl\nVERSION_ID=\"202606.29.0\"\n# end\n",
    "\u{feff}VERSION_ID='1 2'\r\nVERSION_ID=\"a\\\"b\\$c\\`d\\\\\"\r\n",
    // Parts to put in anywhere.
    "\n",
    "\r\n",
    "=",
    "'",
    "\"",
    "\\",
    "#",
    " ",
    "\t",
    "$HOME",
    "`id`",
    "\0",
    "export ",
    "VERSION_ID",
    "VERSION_ID=",
    "\nVERSION_ID=2\n",
    ";",
    "\u{feff}",
];

fn how(fallback: Fallback) -> CurrentVersion {
    CurrentVersion { path: "/release".into(), key: "VERSION_ID".to_owned(), fallback }
}

#[test]
fn os_release() {
    let root = tempfile::tempdir().unwrap();
    let (host, path) = (Host::new(root.path()), root.path().join("release"));
    let one_at_a_time = Mutex::new(());
    mutate::each(&SEEDS, |bytes| {
        let _held = one_at_a_time.lock();
        File::create(&path).unwrap().write_all(bytes).unwrap();
        let read = host.version(&how(Fallback::Error)).ok();
        if let Some(version) = &read {
            assert!(!version.is_empty() && !version.contains(['\n', '\u{fffd}']), "{version:?}");
        }
        let or = |text: &str| read.clone().unwrap_or_else(|| text.to_owned());
        assert_eq!(host.version(&how(Fallback::Zero)).unwrap(), or("0.0.0"));
        let verbatim = how(Fallback::Verbatim("v".to_owned()));
        assert_eq!(host.version(&verbatim).unwrap(), or("v"));
        // Whatever stands before it, the last one wins.
        let more = [bytes, b"\nVERSION_ID=last\n"].concat();
        File::create(&path).unwrap().write_all(&more).unwrap();
        assert_eq!(host.version(&how(Fallback::Error)).unwrap(), "last");
    });
}
