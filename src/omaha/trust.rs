//! Whom we trust: the system's CA certificates, or those that the environment names instead.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::contract::pem_certificates;

/// Where certificates are read from.
#[derive(Debug, Default)]
struct Places {
    file: Option<PathBuf>,
    directories: Vec<PathBuf>,
}

/// What was read.
#[derive(Debug, Default)]
struct Found {
    certificates: BTreeSet<Vec<u8>>,
    broken: usize,
}

/// A TLS configuration that trusts what could be read; `None` if that is nothing.
pub(super) fn client_config() -> Option<ClientConfig> {
    let mut store = RootCertStore::empty();
    let (good, _) = store.add_parsable_certificates(trusted());
    (good > 0).then(|| ClientConfig::builder().with_root_certificates(store).with_no_client_auth())
}

/// The certificates that could be read, and that can be trust anchors.
pub(super) fn trusted() -> Vec<CertificateDer<'static>> {
    let found = Found::read(&Places::now());
    let is_good =
        |it: &CertificateDer<'_>| RootCertStore::empty().add(it.clone().into_owned()).is_ok();
    let all = found.certificates.into_iter().map(CertificateDer::from);
    let (good, bad): (Vec<_>, Vec<_>) = all.partition(is_good);
    let ignored = bad.len().saturating_add(found.broken);
    if ignored > 0 {
        tracing::warn!(good = good.len(), ignored, "ignoring CA certificates that cannot be read");
    }
    good
}

impl Places {
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR`; the system's places if neither is set.
    fn now() -> Places {
        let set = |name| env::var_os(name).filter(|value: &OsString| !value.is_empty());
        let (file, directories) = (set("SSL_CERT_FILE"), set("SSL_CERT_DIR"));
        if file.is_none() && directories.is_none() {
            let system = openssl_probe::probe();
            return Places { file: system.cert_file, directories: system.cert_dir };
        }
        let directories = directories.iter().flat_map(env::split_paths);
        Places {
            file: file.map(PathBuf::from),
            directories: directories.filter(|path| !path.as_os_str().is_empty()).collect(),
        }
    }
}

impl Found {
    fn read(places: &Places) -> Found {
        let mut found = Found::default();
        if let Some(file) = &places.file {
            found.survive(file, found_in(file));
        }
        for directory in &places.directories {
            match files_of(directory) {
                Ok(files) => files.iter().for_each(|file| found.survive(file, found_in(file))),
                Err(error) => found.survive(directory, Err(error)),
            }
        }
        found
    }

    fn survive(&mut self, path: &Path, read: io::Result<Found>) {
        match read {
            Ok(mut more) => {
                self.certificates.append(&mut more.certificates);
                self.broken = self.broken.saturating_add(more.broken);
            }
            Err(error) => {
                let path = path.display();
                tracing::warn!(%path, %error, "reading CA certificates failed, ignoring");
            }
        }
    }
}

fn files_of(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    // Links are followed; one that leads nowhere is no file.
    Ok(entries.iter().map(fs::DirEntry::path).filter(|path| path.is_file()).collect())
}

fn found_in(file: &Path) -> io::Result<Found> {
    let bytes = fs::read(file)?;
    Ok(certificates(&String::from_utf8_lossy(&bytes)))
}

/// Every certificate of a PEM text that can be decoded.
fn certificates(text: &str) -> Found {
    let mut found = Found::default();
    for pem in pem_certificates(text) {
        match CertificateDer::from_pem_slice(pem.as_bytes()) {
            Ok(certificate) => {
                found.certificates.insert(certificate.to_vec());
            }
            Err(_not_pem) => found.broken = found.broken.saturating_add(1),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";

    #[test]
    fn every_whole_certificate_is_found() {
        let key = GOOD.replace("CERTIFICATE", "PRIVATE KEY");
        for (text, good, broken) in [
            (String::new(), 0, 0),
            (GOOD.repeat(2), 1, 0),
            (format!("text\n{GOOD}text\n{key}"), 1, 0),
            (GOOD.replace('\n', "\r\n"), 1, 0),
            (format!("-----BEGIN CERTIFICATE-----\naGVs\n{GOOD}"), 1, 1),
            (format!("-----BEGIN CERTIFICATE-----{GOOD}"), 1, 1),
            (format!("{GOOD}-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"), 1, 1),
            (format!("{GOOD}-----BEGIN CERTIFICATE-----\naGVs"), 1, 1),
        ] {
            let found = certificates(&text);
            assert_eq!((found.certificates.len(), found.broken), (good, broken), "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_before_or_after_hides_a_certificate(before: String, after: String) {
            let text = format!("{before}\n{GOOD}{after}");
            prop_assert!(certificates(&text).certificates.contains(&b"hello"[..]));
        }
    }
}
