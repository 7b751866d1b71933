//! All sources together, as staging sees them.

use std::collections::HashMap;
use std::path::PathBuf;

use trident_slots::{
    Address, Bundle, Files, FillError, Known, Origin, Place, Problem, Sha384, Slotted, Sources,
    Take, Tree,
};

use super::cosi::Cosi;
use super::error::FetchError;
use super::oci::Layer;
use super::remote::{Local, Remote};
use super::web::Web;

/// What was looked at, until it is fetched; the network is touched when something on it is wanted.
#[derive(Debug)]
pub struct Network {
    tree: Tree,
    files: Files,
    web: Option<Web>,
    cosi: Option<Cosi>,
    looked_at: HashMap<String, Box<dyn Remote>>,
}

impl Network {
    pub fn new(tree: Tree) -> Self {
        let files = Files::new(tree.clone());
        Self { tree, files, web: None, cosi: None, looked_at: HashMap::new() }
    }

    /// Opens a COSI file, by URL or by path, and reads what it brings along.
    ///
    /// # Errors
    /// [`FetchError`]
    pub fn bundle(
        &mut self,
        location: &str,
        metadata: Option<&Sha384>,
    ) -> Result<Bundle, FetchError> {
        let address = Address::from(location.to_owned());
        let remote: Box<dyn Remote> = match address.place() {
            Some(Place::File(path)) => Box::new(Local::open(self.tree.file(path.as_ref())?)?),
            Some(Place::Https(url)) => Box::new(self.web()?.file(url)?),
            Some(Place::Oci(reference)) => Box::new(Layer::find(&self.web()?.runtime, reference)?),
            None if location.contains("://") => return Err(FetchError::Address),
            None => Box::new(Local::open(PathBuf::from(location))?),
        };
        let cosi = self.cosi.insert(Cosi::new(remote)?);
        cosi.bundle(metadata)
    }

    fn web(&mut self) -> Result<&Web, FetchError> {
        let web = match self.web.take() {
            Some(web) => web,
            None => Web::new()?,
        };
        Ok(self.web.insert(web))
    }

    /// By what an image is looked up again.
    fn key(wanted: &Slotted) -> String {
        match &wanted.origin {
            Origin::Url { url, .. } => match url.place() {
                Some(Place::Https(whole)) => whole.to_owned(),
                _ => url.to_string(),
            },
            Origin::Member(member) => member.path.clone(),
        }
    }

    fn find(&mut self, wanted: &Slotted) -> Result<Known, FetchError> {
        let Origin::Url { url, .. } = &wanted.origin else { return Err(FetchError::Address) };
        let (known, remote): (Known, Box<dyn Remote>) = match url.place() {
            Some(Place::Https(whole)) => {
                let file = self.web()?.file(whole)?;
                let size = file.size().ok_or(FetchError::NoSize)?;
                let file_name = wanted.origin.file_name();
                (Known { size, file_name, hash: None }, Box::new(file))
            }
            Some(Place::Oci(reference)) => {
                let layer = Layer::find(&self.web()?.runtime, reference)?;
                let size = layer.size().ok_or(FetchError::NoSize)?;
                let (file_name, hash) = (layer.title(), Some(layer.hash.clone()));
                (Known { size, file_name, hash }, Box::new(layer))
            }
            _ => return Err(FetchError::Address),
        };
        self.looked_at.insert(Self::key(wanted), remote);
        Ok(known)
    }

    fn get(&mut self, wanted: &Slotted, at: usize, take: &mut Take<'_>) -> Result<(), FillError> {
        let remote = self.looked_at.remove(&Self::key(wanted)).ok_or(FetchError::Address);
        let body = remote.and_then(|remote| remote.whole());
        let mut body = body.map_err(|problem| FillError::source(wanted, problem))?;
        take(at, &mut body)
    }
}

fn is_file(wanted: &Slotted) -> bool {
    matches!(&wanted.origin, Origin::Url { url, .. } if matches!(url.place(), Some(Place::File(_))))
}

impl Sources for Network {
    fn look(&mut self, wanted: &Slotted) -> Result<Known, Problem> {
        match &wanted.origin {
            Origin::Member(_) if self.cosi.is_none() => Err(FetchError::NoCosi.into()),
            Origin::Member(member) => {
                Ok(Known { size: member.uncompressed_size, file_name: None, hash: None })
            }
            Origin::Url { .. } if is_file(wanted) => self.files.look(wanted),
            Origin::Url { .. } => Ok(self.find(wanted)?),
        }
    }

    fn fetch(&mut self, wanted: &[&Slotted], take: &mut Take<'_>) -> Result<(), FillError> {
        for (at, one) in wanted.iter().enumerate() {
            match &one.origin {
                Origin::Member(_) => {}
                Origin::Url { .. } if is_file(one) => {
                    self.files.fetch(&[one], &mut |_, bytes| take(at, bytes))?;
                }
                Origin::Url { .. } => self.get(one, at, take)?,
            }
        }
        match &self.cosi {
            Some(cosi) => cosi.fetch(wanted, take),
            None => Ok(()),
        }
    }
}
