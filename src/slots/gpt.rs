//! Where the file system of an image is: all of the image, or the root partition of its partition table.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use thiserror::Error;

/// Of every image that is a file.
const SECTOR: u64 = 512;
const MARK: &[u8] = b"EFI PART";
/// The types of a root partition: x86-64 and arm64, as their bytes stand in the table.
const ROOT: [[u8; 16]; 2] = [
    *b"\xe3\xbc\x68\x4f\xcd\xe8\xb1\x4d\x96\xe7\xfb\xca\xf9\x84\xb7\x09",
    *b"\x45\xb0\x21\xb9\xf0\x1d\xc3\x41\xaf\x44\x4c\x6f\x28\x0d\x3f\xae",
];
/// More entries, or larger ones, than any table has.
const MAX_ENTRIES: u32 = 256;
const ENTRY: u32 = 128;
const MAX_ENTRY: u32 = 4096;

#[derive(Debug, Error)]
pub enum PartError {
    #[error("cannot read its beginning")]
    Read(#[from] io::Error),
    #[error("its partition table is broken")]
    Broken,
    #[error("its partition table has {0} root partitions, and must have one")]
    NotOne(usize),
}

/// How its file system is mounted by way of a loop device.
///
/// # Errors
/// [`PartError`]
pub(super) fn loop_options(image: &Path) -> Result<String, PartError> {
    let file = File::open(image)?;
    Ok(match root_partition(&file)? {
        Some((offset, size)) => format!("loop,offset={offset},sizelimit={size}"),
        None => "loop".to_owned(),
    })
}

/// `None`: there is no partition table.
fn root_partition(file: &File) -> Result<Option<(u64, u64)>, PartError> {
    let length = file.metadata()?.len();
    let header = read_at(file, SECTOR, 92)?;
    if !header.starts_with(MARK) {
        return Ok(None);
    }
    let at = u64_at(&header, 72).and_then(|it| it.checked_mul(SECTOR)).ok_or(PartError::Broken)?;
    let count = u32_at(&header, 80).filter(|it| *it <= MAX_ENTRIES).ok_or(PartError::Broken)?;
    let size = u32_at(&header, 84).filter(|it| (ENTRY..=MAX_ENTRY).contains(it));
    let size = size.ok_or(PartError::Broken)?;
    let table = read_at(file, at, u64::from(count) * u64::from(size))?;
    let entries = table.chunks_exact(usize::try_from(size).unwrap_or(usize::MAX));
    let is_root =
        |entry: &&[u8]| entry.get(..16).is_some_and(|kind| ROOT.iter().any(|it| it == kind));
    let roots: Vec<_> = entries.filter(is_root).collect();
    let [root] = roots.as_slice() else { return Err(PartError::NotOne(roots.len())) };
    place(root, length).map(Some).ok_or(PartError::Broken)
}

/// Offset and size of a partition, which lies inside of the image.
fn place(entry: &[u8], length: u64) -> Option<(u64, u64)> {
    let (first, last) = (u64_at(entry, 32)?, u64_at(entry, 40)?);
    let offset = first.checked_mul(SECTOR)?;
    let size = last.checked_sub(first)?.checked_add(1)?.checked_mul(SECTOR)?;
    (offset.checked_add(size)? <= length).then_some((offset, size))
}

/// As much as there is of it.
fn read_at(file: &File, at: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at.saturating_add(done as u64))? {
            0 => break,
            more => done += more,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..)?.first_chunk::<4>().copied()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..)?.first_chunk::<8>().copied()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Sixteen sectors with a table that has its entries in the third.
    fn image(change: impl FnOnce(&mut Vec<u8>)) -> Result<Option<(u64, u64)>, String> {
        let mut bytes = vec![0; 16 * 512];
        bytes[512..520].copy_from_slice(MARK);
        bytes[584] = 2;
        bytes[592] = 4;
        bytes[596] = 128;
        // The second entry: sectors 8 to 11.
        bytes[1152..1168].copy_from_slice(&ROOT[0]);
        bytes[1184] = 8;
        bytes[1192] = 11;
        change(&mut bytes);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        root_partition(&file).map_err(|it| it.to_string())
    }

    type Change = fn(&mut Vec<u8>);

    #[test]
    fn the_root_partition_is_found_or_the_table_refused() {
        let whole = Ok(Some((8 * 512, 4 * 512)));
        assert_eq!(image(|_| ()), whole);
        assert_eq!(image(|it| it[1152..1168].copy_from_slice(&ROOT[1])), whole);
        assert_eq!(image(|it| it[512] = 0), Ok(None));
        assert_eq!(image(|it| it.truncate(500)), Ok(None));
        assert_eq!(image(Vec::clear), Ok(None));
        let refused: [(&str, Change); 10] = [
            ("broken", |it| it.truncate(560)),
            ("broken", |it| it[584..592].fill(0xff)),
            ("broken", |it| it[593] = 2),
            ("broken", |it| it[596] = 64),
            ("broken", |it| it[598] = 1),
            ("broken", |it| it[1192] = 16),
            ("broken", |it| it[1192] = 7),
            ("broken", |it| it[1184..1200].fill(0xff)),
            ("has 0 root", |it| it[1152] = 0),
            ("has 2 root", |it| it.copy_within(1152..1280, 1280)),
        ];
        for (number, (word, change)) in refused.into_iter().enumerate() {
            let said = image(change).unwrap_err();
            assert!(said.contains(word), "{number}: {said}");
        }
    }
}
