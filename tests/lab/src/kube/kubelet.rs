//! What a kubelet leaves on its node, by which others reach the API server as that node.

#![allow(clippy::disallowed_methods, reason = "nothing here outlives a test")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use tempfile::TempDir;

use crate::tls::{Credential, Login, Pem, Pki, kubeconfig};

/// A directory with a kubeconfig, the CA and a client certificate that is replaced as a kubelet does it.
#[derive(Debug)]
pub struct Kubelet {
    directory: TempDir,
    rotations: AtomicU32,
}

impl Kubelet {
    /// The kubelet of `node`, with a valid certificate.
    pub fn new(pki: &Pki, server: &str, node: &str) -> Result<Self> {
        let kubelet = Self { directory: tempfile::tempdir()?, rotations: AtomicU32::new(0) };
        kubelet.rotate(&pki.kubelet_cert(node))?;
        kubelet.write("pki/ca.crt", pki.ca_pem())?;
        // Relative: as seen from the kubeconfig.
        let current = Pem::File(Path::new("pki/kubelet-client-current.pem"));
        let login = Login::Certificate { cert: current, key: current };
        kubelet.configure(&kubeconfig(server, Pem::File(Path::new("pki/ca.crt")), login))?;
        Ok(kubelet)
    }

    /// Where all of it is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }

    /// The link to the certificate that counts.
    pub fn certificate(&self) -> PathBuf {
        self.path("pki/kubelet-client-current.pem")
    }

    /// Replaces the kubeconfig.
    pub fn configure(&self, text: &str) -> Result<()> {
        self.write("kubeconfig", text)
    }

    /// Replaces a file at once.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> Result<()> {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("below the directory"))?;
        std::fs::write(path.with_extension("new"), text)?;
        Ok(std::fs::rename(path.with_extension("new"), path)?)
    }

    /// A new file of certificate and key, and the link swapped to it.
    pub fn rotate(&self, credential: &Credential) -> Result<()> {
        self.rotate_pem(&credential.combined_pem())
    }

    /// The same with this text.
    pub fn rotate_pem(&self, pem: &str) -> Result<()> {
        let n = self.rotations.fetch_add(1, Ordering::SeqCst);
        let dated = format!("kubelet-client-2026-01-01-00-00-{n:02}.pem");
        self.write(&format!("pki/{dated}"), pem)?;
        let updated = self.path("pki/kubelet-client-current.pem.updated");
        symlink(dated, &updated)?;
        Ok(std::fs::rename(updated, self.certificate())?)
    }
}
