//! The affinity cookie: set by the first check of a stage, sent with every later request.
//!
//! Affinity is best effort: what goes wrong with the file is a warning. Values are never logged.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{HeaderMap, HeaderValue, SET_COOKIE};
use rustix::fs::{Mode, OFlags};

use crate::steps::{self, Step};

/// Longer ones are refused by most servers.
const SIZE_LIMIT: usize = 8 * 1024;
/// Of the whole file: the cookie and an origin.
const FILE_LIMIT: u64 = 16 * 1024;

/// The file that keeps the cookie, read anew for each request: a line with the cookie as it is sent, and a line
/// with the origin that set it. A file without the second, from an agent that wrote none, goes to any server.
#[derive(Clone, Debug)]
pub struct CookieJar {
    path: PathBuf,
}

impl CookieJar {
    /// A jar at this path; its directory must exist.
    pub fn new(path: impl Into<PathBuf>) -> CookieJar {
        CookieJar { path: path.into() }
    }

    /// The stored cookie, if there is one for this origin.
    pub(super) fn load(&self, origin: &str) -> Option<HeaderValue> {
        let text = match read_limited(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                self.warn("reading", &error);
                return None;
            }
        };
        let (cookie, set_by) = match text.trim().split_once('\n') {
            Some((cookie, set_by)) => (cookie, set_by),
            None => (text.trim(), origin),
        };
        if cookie.is_empty() || set_by != origin {
            return None;
        }
        let value = header(cookie);
        if value.is_none() {
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

    /// Stores what an answer of this origin sets, if it sets anything.
    pub(super) fn store(&self, headers: &HeaderMap, origin: &str) {
        let cookie = cookie_of(headers, Timestamp::now());
        if cookie.is_empty() {
            return;
        }
        if header(&cookie).is_none() {
            tracing::warn!(size = cookie.len(), "ignoring an affinity cookie that is too long");
            return;
        }
        if let Err(error) = replace(&self.path, format!("{cookie}\n{origin}\n").as_bytes()) {
            self.warn("storing", &error);
        }
    }

    fn warn(&self, doing: &str, error: &io::Error) {
        let path = self.path.display();
        tracing::warn!(%error, "{doing} the affinity cookie in {path} failed, ignoring");
    }
}

/// Follows no link, which could lead to any secret of this host, and waits for no writer of a pipe.
fn read_limited(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut text = String::new();
    file.take(FILE_LIMIT).read_to_string(&mut text)?;
    Ok(text)
}

/// A value that may be sent; marked, so that no one prints it.
fn header(cookie: &str) -> Option<HeaderValue> {
    if cookie.is_empty() || cookie.len() > SIZE_LIMIT || !is_sendable(cookie) {
        return None;
    }
    let mut value = HeaderValue::from_str(cookie).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn is_sendable(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// The `name=value` pairs that an answer sets, joined; of two with one name the later counts. What cannot be
/// sent is left out.
fn cookie_of(headers: &HeaderMap, now: Timestamp) -> String {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for text in headers.get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok()) {
        let mut parts = text.split(';').map(str::trim);
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        pairs.retain(|(known, _)| *known != name);
        let good = !name.is_empty() && is_sendable(name) && is_sendable(value);
        if good && !is_deleted(parts, now) {
            pairs.push((name, value));
        }
    }
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("; ")
}

/// `Max-Age` of zero or less takes a cookie away, or else an `Expires` that is past. One that cannot be read
/// does not count.
fn is_deleted<'a>(attributes: impl Iterator<Item = &'a str>, now: Timestamp) -> bool {
    let (mut age, mut expires) = (None, None);
    for (name, value) in attributes.filter_map(|attribute| attribute.split_once('=')) {
        if name.trim().eq_ignore_ascii_case("max-age") {
            age = value.trim().parse::<i64>().ok().or(age);
        } else if name.trim().eq_ignore_ascii_case("expires") {
            // Older servers write the date with hyphens.
            let date = value.trim().replace('-', " ");
            expires = DateTimeParser::new().parse_timestamp(&date).ok().or(expires);
        }
    }
    age.map_or(expires.is_some_and(|end| end <= now), |age| age <= 0)
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
    Ok(file)
}

#[expect(clippy::disallowed_methods, reason = "the flushes stand around it, in `replace`")]
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

#[cfg(test)]
mod tests;
