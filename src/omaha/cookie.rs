//! The affinity cookie: set by the first check of a stage, sent with every later request.
//!
//! Affinity is best effort: what goes wrong with the file is a warning. Values are never logged.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use reqwest::header::{HeaderMap, HeaderValue, SET_COOKIE};

use crate::steps::{self, Step};

/// Longer ones are refused by most servers.
const SIZE_LIMIT: usize = 8 * 1024;

/// The file that keeps the cookie: one line, as it is sent. Read anew for each request.
#[derive(Clone, Debug)]
pub struct CookieJar {
    path: PathBuf,
}

impl CookieJar {
    /// A jar at this path; its directory must exist.
    pub fn new(path: impl Into<PathBuf>) -> CookieJar {
        CookieJar { path: path.into() }
    }

    /// The stored cookie, if there is one.
    pub(super) fn load(&self) -> Option<HeaderValue> {
        let text = match read_limited(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                self.warn("reading", &error);
                return None;
            }
        };
        let value = header(text.trim());
        if value.is_none() && !text.trim().is_empty() {
            tracing::warn!(path = %self.path.display(), "ignoring a stored cookie that cannot be sent");
        }
        value
    }

    /// Forgets the stored cookie.
    pub(super) fn clear(&self) {
        match steps::done(Step::FileRemove, &self.path, || fs::remove_file(&self.path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => self.warn("clearing", &error),
            Ok(()) | Err(_) => {}
        }
    }

    /// Stores what an answer sets, if it sets anything.
    pub(super) fn store(&self, headers: &HeaderMap) {
        let Some(cookie) = cookie_of(headers) else {
            return;
        };
        if let Err(error) = replace(&self.path, cookie.as_bytes()) {
            self.warn("storing", &error);
        }
    }

    fn warn(&self, doing: &str, error: &io::Error) {
        let path = self.path.display();
        tracing::warn!(%error, "{doing} the affinity cookie in {path} failed, ignoring");
    }
}

fn read_limited(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let limit = u64::try_from(SIZE_LIMIT).unwrap_or(u64::MAX).saturating_add(2);
    File::open(path)?.take(limit).read_to_string(&mut text)?;
    Ok(text)
}

/// A value that may be sent; marked, so that no one prints it.
fn header(cookie: &str) -> Option<HeaderValue> {
    if cookie.is_empty() || cookie.len() > SIZE_LIMIT || !cookie.bytes().all(is_sendable) {
        return None;
    }
    let mut value = HeaderValue::from_str(cookie).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn is_sendable(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

/// The `name=value` pairs that an answer sets, joined; of two with one name the later counts.
fn cookie_of(headers: &HeaderMap) -> Option<String> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for text in headers.get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok()) {
        let mut parts = text.split(';').map(str::trim);
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        pairs.retain(|(known, _)| *known != name);
        if !name.is_empty() && !parts.any(deletes) {
            pairs.push((name, value));
        }
    }
    let cookie = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    let cookie = cookie.join("; ");
    header(&cookie).map(|_sendable| cookie)
}

/// `Max-Age` of zero or less takes a cookie away.
fn deletes(attribute: &str) -> bool {
    let Some((name, value)) = attribute.split_once('=') else {
        return false;
    };
    let age = value.trim().parse::<i64>();
    name.trim().eq_ignore_ascii_case("max-age") && age.is_ok_and(|age| age <= 0)
}

/// Replaces a file as one step: a reader, or a power cut, sees the old or the new one whole.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
    let name = path.file_name().ok_or_else(no_name)?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut temporary_name = std::ffi::OsString::from(".");
    temporary_name.push(name);
    temporary_name.push(".new");
    let temporary = directory.join(temporary_name);
    let file = steps::done(Step::FileWrite, &temporary, || write_new(&temporary, content))?;
    steps::done(Step::FileFlush, &temporary, || file.sync_all())?;
    steps::done(Step::FileRename, path, || rename(&temporary, path))?;
    steps::done(Step::DirectoryFlush, path, || File::open(directory)?.sync_all())
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<File> {
    // Left over from a crash; made anew so that its mode is ours.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.write_all(b"\n")?;
    Ok(file)
}

#[expect(clippy::disallowed_methods, reason = "the flushes stand around it, in `replace`")]
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

#[cfg(test)]
mod tests;
