//! A host tree for the program, and images, tars and COSI files to stage on it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256, Sha384};
use tempfile::TempDir;

use crate::server::{CA, Server};

pub(crate) const STORE: &str = "var/trident/extensions";

/// A host whose slot a runs, beside a directory of what is none of its business.
pub(crate) struct Host {
    dir: TempDir,
}

impl Host {
    pub(crate) fn new() -> Result<Self> {
        let host = Self { dir: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))? };
        fs::create_dir_all(host.root().join("etc"))?;
        fs::write(host.root().join("etc/os-release"), "ID=lab\n")?;
        Ok(host)
    }

    /// With a server that it trusts.
    pub(crate) fn with_server() -> Result<(Self, Server)> {
        let host = Self::new()?;
        let server = Server::start(host.dir.path())?;
        Ok((host, server))
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// A file outside the host tree.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes)?;
        Ok(path)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trident-slotctl"));
        command.arg("--root").arg(self.root()).args(arguments);
        command.env_remove("TRIDENT_SLOT_LOADER_STORE").env_remove("SSL_CERT_DIR");
        for proxy in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
            command.env_remove(proxy);
        }
        command.env("SSL_CERT_FILE", self.dir.path().join(CA));
        command
    }

    /// Stages what `os` wants, with more arguments.
    pub(crate) fn stage(&self, os: &Value, more: &[&str]) -> Result<Output> {
        let wanted = self.file("wanted.json", json!({ "os": os }).to_string())?;
        let mut command = self.command(&["stage", "--booted", "a", "--first"]);
        Ok(command.arg(wanted).args(more).output()?)
    }

    /// And it must succeed with this line.
    pub(crate) fn staged(&self, os: &Value, more: &[&str], line: &str) -> Result<String> {
        let output = self.stage(os, more)?;
        let said = said(&output);
        ensure!(output.status.success() && said.contains(line), "{said}");
        Ok(said)
    }

    /// Refused with this word: the sets, and all else, are as they were.
    pub(crate) fn refuses(&self, os: &Value, more: &[&str], word: &str) -> Result<()> {
        let before = self.everything()?;
        let output = self.stage(os, more)?;
        let said = said(&output);
        ensure!(output.status.code() == Some(1) && said.contains(word), "{word:?}: {said}");
        ensure!(said.lines().count() <= 8 && said.len() < 2000, "{word:?}: {said}");
        let after = self.everything()?;
        let changed = |path: &&PathBuf| before.get(*path) != after.get(*path);
        let changed: Vec<_> = before.keys().chain(after.keys()).filter(changed).collect();
        ensure!(changed.is_empty(), "{word:?}: {said}: {changed:?}");
        Ok(())
    }

    /// No set, as on the first day.
    pub(crate) fn emptied(&self) -> Result<()> {
        match fs::remove_dir_all(self.root().join(STORE)) {
            Err(gone) if gone.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => Ok(other?),
        }
    }

    pub(crate) fn set(&self) -> Result<Value> {
        let output = self.command(&["list", "--json"]).output()?;
        ensure!(output.status.success(), "{output:?}");
        let verified = self.command(&["verify"]).output()?;
        ensure!(verified.status.success(), "{verified:?}");
        Ok(serde_json::from_slice::<Value>(&output.stdout)?["b"]["extensions"].clone())
    }

    /// Every path below the test's directory with its content, but for the lock and what a test writes itself.
    pub(crate) fn everything(&self) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
        let mut found = BTreeMap::new();
        let mut left = vec![self.dir.path().to_owned()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(&directory)? {
                let path = entry?.path();
                let kind = fs::symlink_metadata(&path)?;
                if kind.is_dir() {
                    left.push(path.clone());
                }
                let content = if kind.is_file() { fs::read(&path)? } else { Vec::new() };
                found.insert(path, content);
            }
        }
        let own = |path: &Path| path.parent() == Some(self.dir.path()) || path.ends_with(".lock");
        found.retain(|path, _| !own(path));
        Ok(found)
    }
}

pub(crate) fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

pub(crate) fn sha384(bytes: &[u8]) -> String {
    Sha384::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that do not compress.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// A sysext with this content.
pub(crate) fn sysext(name: &str, content: &[u8]) -> Result<Vec<u8>> {
    image("usr/lib", name, content, &format!("ID=_any\nSYSEXT_ID={name}\n"))
}

pub(crate) fn confext(name: &str, content: &[u8]) -> Result<Vec<u8>> {
    image("etc", name, content, &format!("ID=_any\nCONFEXT_ID={name}\n"))
}

pub(crate) fn image(top: &str, name: &str, content: &[u8], release: &str) -> Result<Vec<u8>> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let releases = dir.path().join("tree").join(top).join("extension-release.d");
    fs::create_dir_all(&releases)?;
    fs::write(releases.join(format!("extension-release.{name}")), release)?;
    fs::write(dir.path().join("tree").join(top).join(format!("{name}.content")), content)?;
    let image = dir.path().join("image");
    let mut make = Command::new("mksquashfs");
    make.arg(dir.path().join("tree")).arg(&image).args(["-quiet", "-all-root", "-noD"]);
    let made = make.output().context("squashfs-tools are not installed: make setup")?;
    ensure!(made.status.success(), "{made:?}");
    Ok(fs::read(image)?)
}

/// By the program that everybody makes such files with.
pub(crate) fn zstd(bytes: &[u8], arguments: &[&str]) -> Result<Vec<u8>> {
    let mut command = Command::new("zstd");
    command.args(["-q", "-c"]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("zstd is not installed: make setup")?;
    let mut input = child.stdin.take().context("no input")?;
    let bytes = bytes.to_vec();
    let writing = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output()?;
    writing.join().unwrap()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(output.stdout)
}

/// A COSI file in the making: what its metadata says, and what its tar has.
#[derive(Clone)]
pub(crate) struct Cosi {
    pub(crate) metadata: Value,
    /// Path, kind, bytes.
    pub(crate) members: Vec<(String, u8, Vec<u8>)>,
}

impl Cosi {
    pub(crate) fn new() -> Self {
        let extensions = json!({ "sysexts": [], "confexts": [] });
        let metadata = json!({ "version": "1.1", "osArch": "x86_64", "images": [],
            "extensions": extensions });
        Self { metadata, members: Vec::new() }
    }

    /// An image, compressed, and its entry.
    pub(crate) fn with(mut self, list: &str, name: &str, raw: &[u8]) -> Result<Self> {
        let compressed = zstd(raw, &["-3"])?;
        let path = format!("images/{name}.raw.zst");
        let entry = json!({ "image": { "path": path, "compressedSize": compressed.len(),
            "uncompressedSize": raw.len(), "sha384": sha384(&compressed) } });
        self.metadata["extensions"][list].as_array_mut().unwrap().push(entry);
        self.members.push((path, b'0', compressed));
        Ok(self)
    }

    pub(crate) fn member(mut self, path: &str, bytes: Vec<u8>) -> Self {
        self.members.push((path.to_owned(), b'0', bytes));
        self
    }

    pub(crate) fn metadata_text(&self) -> String {
        self.metadata.to_string()
    }

    pub(crate) fn tar(&self) -> Vec<u8> {
        self.tar_with(&self.metadata_text())
    }

    pub(crate) fn tar_with(&self, metadata: &str) -> Vec<u8> {
        let mut tar = Vec::new();
        put(&mut tar, "metadata.json", b'0', metadata.as_bytes());
        for (path, kind, bytes) in &self.members {
            put(&mut tar, path, *kind, bytes);
        }
        tar.extend([0; 1024]);
        tar
    }
}

/// One member, as it stands: a name may be anything.
pub(crate) fn put(tar: &mut Vec<u8>, path: &str, kind: u8, bytes: &[u8]) {
    let mut header = tar::Header::new_ustar();
    let name = &mut header.as_old_mut().name;
    let length = path.len().min(name.len());
    name[..length].copy_from_slice(&path.as_bytes()[..length]);
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    tar.extend(header.as_bytes());
    tar.extend(bytes);
    tar.resize(tar.len().next_multiple_of(512), 0);
}
