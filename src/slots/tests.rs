//! What a room's tests share: a host tree with a store in it.
#![allow(clippy::disallowed_methods, reason = "they are the product's rules on files")]
#![allow(clippy::too_many_lines, reason = "a table is as long as its rows")]

mod booted;
mod loading;
mod manifest;
mod publishing;
mod recovering;
mod schema;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::word::Slot;
use super::{Options, Report, Strategy, Tree, load};

/// A tree with `/proc`, `/sys` and a real root below `/sysroot`.
struct Host {
    dir: TempDir,
}

/// Begins like a squashfs image.
fn image(content: &str) -> Vec<u8> {
    format!("hsqs{content}").into_bytes()
}

fn sha384(bytes: &[u8]) -> String {
    super::store::sha384(bytes).unwrap().to_string()
}

/// An entry as a stager would write it.
fn entry(kind: &str, name: &str, content: &str) -> Value {
    let bytes = image(content);
    json!({
        "kind": kind, "id": format!("id.{name}"), "name": name,
        "file": format!("{kind}s/{name}.raw"), "size": bytes.len(), "sha384": sha384(&bytes),
    })
}

fn optional(mut entry: Value) -> Value {
    entry["required"] = json!(false);
    entry
}

impl Host {
    fn new() -> Self {
        let host = Self { dir: tempfile::tempdir().unwrap() };
        host.write("/proc/cmdline", "root=/dev/vda quiet\n");
        host.write("/proc/self/mountinfo", "");
        host.write("/proc/sys/kernel/random/boot_id", "4d3c2b1a\n");
        host.directory("/run");
        host.directory("/sysroot/etc");
        host
    }

    fn tree(&self) -> Tree {
        Tree::new(self.dir.path())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.tree().at(path)
    }

    fn directory(&self, path: &str) {
        fs::create_dir_all(self.at(path)).unwrap();
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn link(&self, path: &str, to: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, path).unwrap();
    }

    /// A slot with these entries, and an image for each whose content is its name.
    fn set(&self, slot: Slot, entries: &[Value]) {
        for entry in entries {
            let file = entry["file"].as_str().unwrap();
            self.write(&in_store(slot, file), image(entry["name"].as_str().unwrap()));
        }
        self.manifest(slot, &json!({ "mode": "managed", "extensions": entries }));
    }

    fn manifest(&self, slot: Slot, rest: &Value) {
        let mut manifest = json!({ "schemaVersion": "1.0", "slot": slot });
        for (name, value) in rest.as_object().unwrap() {
            manifest[name] = value.clone();
        }
        self.write(&in_store(slot, "manifest.json"), manifest.to_string());
    }

    fn options(&self, slot: Option<Slot>) -> Options {
        Options {
            tree: self.tree(),
            sysroot: "/sysroot".into(),
            store: None,
            slot,
            confext: Some(Strategy::Native),
        }
    }

    fn load(&self, slot: Slot) -> Report {
        load(&self.options(Some(slot)))
    }

    /// The links below a directory of `/run`: `name -> target`.
    fn links(&self, directory: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.at(directory)) else { return Vec::new() };
        let shown = entries.map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            match fs::read_link(entry.path()) {
                Ok(target) => format!("{name} -> {}", target.display()),
                Err(_) => name,
            }
        });
        let mut shown: Vec<_> = shown.collect();
        shown.sort();
        shown
    }
}

fn in_store(slot: Slot, file: &str) -> String {
    format!("/sysroot/var/trident/extensions/{slot}/{file}")
}

fn link_to(slot: Slot, file: &str) -> String {
    let name = Path::new(file).file_name().unwrap().to_str().unwrap();
    format!("{name} -> /var/trident/extensions/{slot}/{file}")
}
