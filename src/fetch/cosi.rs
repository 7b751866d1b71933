//! A COSI file: a tar with its metadata and compressed images. Where parts can be asked for only the wanted
//! members travel; elsewhere the whole stream does, and what is not wanted passes by.

use std::io::Read;

use sha2::{Digest, Sha384 as Hasher};
use trident_slots::{Bundle, FillError, MAX_METADATA, Member, Origin, Sha384, Slotted, Take};

use super::error::{FetchError, TarError};
use super::remote::{Forward, Parts, Remote, Whole};
use super::tarball::{self, Walk};
use super::zstd::Image;

const METADATA: &str = "metadata.json";

#[derive(Debug)]
pub(crate) struct Cosi {
    remote: Box<dyn Remote>,
    by_parts: bool,
}

/// A wanted member, its place among all that is wanted.
type Want<'a> = (usize, &'a Slotted, &'a Member);

impl Cosi {
    pub(crate) fn new(remote: Box<dyn Remote>) -> Result<Self, FetchError> {
        let by_parts = remote.size().is_some() && remote.has_parts()?;
        Ok(Self { remote, by_parts })
    }

    /// `wanted`: the hash of `metadata.json`, where somebody trusted says it.
    pub(crate) fn bundle(&self, wanted: Option<&Sha384>) -> Result<Bundle, FetchError> {
        let bytes = match self.by_parts {
            true => metadata(&mut Walk::new(self.parts()))?,
            false => metadata(&mut Walk::new(Whole::new(self.remote.whole()?)))?,
        };
        let found = Sha384::of_digest(&Hasher::digest(&bytes));
        match wanted {
            Some(wanted) if *wanted != found => Err(FetchError::OtherMetadata(found)),
            _ => Ok(Bundle::parse(&bytes)?),
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts::new(self.remote.as_ref(), self.remote.size().unwrap_or_default())
    }

    /// Of `wanted`, those that are members.
    pub(crate) fn fetch(&self, wanted: &[&Slotted], take: &mut Take<'_>) -> Result<(), FillError> {
        let members = wanted.iter().enumerate().filter_map(|(at, slotted)| match &slotted.origin {
            Origin::Member(member) => Some((at, *slotted, member)),
            Origin::Url { .. } => None,
        });
        let left: Vec<Want<'_>> = members.collect();
        let Some((_, first, _)) = left.first() else { return Ok(()) };
        if self.by_parts {
            return self.fetch_parts(left, take);
        }
        let whole = self.remote.whole().map_err(|it| FillError::source(first, it))?;
        fetch_passing(Walk::new(Whole::new(whole)), left, take)
    }

    fn fetch_parts(&self, left: Vec<Want<'_>>, take: &mut Take<'_>) -> Result<(), FillError> {
        let mut walk = Walk::new(self.parts());
        each(&mut walk, left, |_, found, (at, slotted, member)| {
            let part = self.remote.part(found.offset, found.size);
            let part = part.map_err(|it| FillError::source(slotted, it))?;
            give(part, at, member, take)
        })
    }
}

fn fetch_passing(
    mut walk: Walk<Whole>,
    left: Vec<Want<'_>>,
    take: &mut Take<'_>,
) -> Result<(), FillError> {
    each(&mut walk, left, |walk, found, (at, slotted, member)| {
        let body = walk.body(found).map_err(|it| FillError::source(slotted, it))?;
        give(body, at, member, take)
    })
}

fn give(from: impl Read, at: usize, member: &Member, take: &mut Take<'_>) -> Result<(), FillError> {
    take(at, &mut Image::new(from, member.compressed_size, member.sha384.clone()))
}

/// Walks until every wanted member was found and given, each by its first occurrence.
fn each<I: Forward>(
    walk: &mut Walk<I>,
    mut left: Vec<Want<'_>>,
    mut give: impl FnMut(&mut Walk<I>, &tarball::Member, Want<'_>) -> Result<(), FillError>,
) -> Result<(), FillError> {
    while let Some((_, slotted, member)) = left.first() {
        let next = walk.next().map_err(|it| FillError::source(slotted, it))?;
        let Some(found) = next else {
            return Err(FillError::source(slotted, FetchError::NoMember(member.path.clone())));
        };
        if let Some(place) = left.iter().position(|(_, _, it)| it.path == found.path) {
            let want = left.remove(place);
            check(&found, want.2).map_err(|it| FillError::source(want.1, it))?;
            give(walk, &found, want)?;
        }
    }
    Ok(())
}

fn check(found: &tarball::Member, member: &Member) -> Result<(), FetchError> {
    if !found.regular {
        return Err(TarError::NotRegular(member.path.clone()).into());
    }
    if found.size != member.compressed_size {
        let (path, expected) = (member.path.clone(), member.compressed_size);
        return Err(FetchError::MemberSize { path, found: found.size, expected });
    }
    Ok(())
}

fn metadata<I: Forward>(walk: &mut Walk<I>) -> Result<Vec<u8>, FetchError> {
    while let Some(member) = walk.next()? {
        if member.path != METADATA {
            continue;
        }
        if !member.regular {
            return Err(TarError::NotRegular(member.path).into());
        }
        if member.size > MAX_METADATA {
            return Err(FetchError::LargeMetadata);
        }
        let mut bytes = Vec::new();
        walk.body(&member)?.read_to_end(&mut bytes)?;
        return match bytes.len() as u64 == member.size {
            true => Ok(bytes),
            false => Err(TarError::Short.into()),
        };
    }
    Err(FetchError::NoMetadata)
}
