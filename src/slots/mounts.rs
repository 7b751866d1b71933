//! The mounts that `/proc/self/mountinfo` shows.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One line of it, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// `major:minor`.
    pub(super) device: String,
    pub(super) point: PathBuf,
    pub(super) source: PathBuf,
}

/// All that can be understood, in the order in which they were mounted.
pub(super) fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(mount).collect()
}

/// The newest that is mounted exactly there.
pub(super) fn at<'a>(mounts: &'a [Mount], point: &Path) -> Option<&'a Mount> {
    mounts.iter().rev().find(|mount| mount.point == point)
}

/// The one that a path is on.
pub(super) fn of<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    path.ancestors().find_map(|above| at(mounts, above))
}

/// `36 35 98:0 /root /point options … - type source options`
fn mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let device = left.nth(2)?.to_owned();
    let point = unescape(left.nth(1)?);
    let source = unescape(right.split(' ').nth(1)?);
    Some(Mount { device, point, source })
}

/// White space and backslashes are written as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        match after.first_chunk::<3>().and_then(octal) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

fn octal(digits: &[u8; 3]) -> Option<u8> {
    let text = std::str::from_utf8(digits).ok()?;
    text.bytes().all(|it| it.is_ascii_digit()).then(|| u8::from_str_radix(text, 8).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let text = "21 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n\
                    nonsense\n\
                    22 21 0:5 / /a\\040b\\134 rw - tmpfs tmp\\011fs rw\n\
                    23 21 8:3 / /a\\040b\\134 rw master:1 propagate_from:2 - ext4 /dev/sda3 rw\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[1].point, Path::new("/a b\\"));
        assert_eq!(mounts[1].source, Path::new("tmp\tfs"));
        assert_eq!(at(&mounts, Path::new("/a b\\")).unwrap().device, "8:3");
        assert_eq!(of(&mounts, Path::new("/a b\\/c/d")).unwrap().device, "8:3");
        assert_eq!(of(&mounts, Path::new("/elsewhere")).unwrap().device, "8:2");
    }
}
