//! Where images come from that no slot has. What needs a network is not this package's business: it stands
//! behind [`Sources`].

use std::fs::File;
use std::io::{self, Read};

use thiserror::Error;

use super::super::tree::Tree;
use super::super::word::Hash;
use super::fill::FillError;
use super::wanted::{Origin, Place, Slotted};

/// What is known of an image before any of it travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Of the raw image.
    pub size: u64,
    /// How its source calls it, where that means something.
    pub file_name: Option<String>,
    /// The source's own hash, where the wanted set does not say it.
    pub hash: Option<Hash>,
}

/// Whatever went wrong on the other side.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Takes one image, by its place among the wanted ones: all of its raw bytes, read to their end.
pub type Take<'a> = dyn FnMut(usize, &mut dyn Read) -> Result<(), FillError> + 'a;

/// A reader that ends has given the whole image: what can be checked on the way is an error before the end.
pub trait Sources {
    /// # Errors
    /// It is not there, or its size cannot be told.
    fn look(&mut self, wanted: &Slotted) -> Result<Known, Problem>;

    /// Gives each of the wanted images to `take`, each once, in whatever order it has them.
    ///
    /// # Errors
    /// [`FillError::Source`], or what `take` said.
    fn fetch(&mut self, wanted: &[&Slotted], take: &mut Take<'_>) -> Result<(), FillError>;
}

/// `file://` only.
#[derive(Debug, Clone)]
pub struct Files {
    tree: Tree,
}

#[derive(Debug, Error)]
enum FileError {
    #[error("it is no file:// URL")]
    NoFileUrl,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Files {
    pub fn new(tree: Tree) -> Self {
        Self { tree }
    }

    fn open(&self, wanted: &Slotted) -> Result<File, FileError> {
        let Origin::Url { url, .. } = &wanted.origin else { return Err(FileError::NoFileUrl) };
        let Some(Place::File(path)) = url.place() else { return Err(FileError::NoFileUrl) };
        Ok(File::open(self.tree.file(path.as_ref())?)?)
    }
}

impl Sources for Files {
    fn look(&mut self, wanted: &Slotted) -> Result<Known, Problem> {
        let size = self.open(wanted)?.metadata()?.len();
        Ok(Known { size, file_name: wanted.origin.file_name(), hash: None })
    }

    fn fetch(&mut self, wanted: &[&Slotted], take: &mut Take<'_>) -> Result<(), FillError> {
        for (at, wanted) in wanted.iter().enumerate() {
            let opened = self.open(wanted);
            let mut file = opened.map_err(|source| FillError::source(wanted, source))?;
            take(at, &mut file)?;
        }
        Ok(())
    }
}
