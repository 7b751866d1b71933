//! Renders a kubeconfig as kubeadm and kubelet write it.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Where a kubeconfig finds a piece of PEM.
#[derive(Clone, Copy, Debug)]
pub enum Pem<'a> {
    /// In the kubeconfig itself, base64.
    Inline(&'a str),
    /// In a file, which may be replaced later.
    File(&'a Path),
}

/// How a kubeconfig's user logs in.
#[derive(Clone, Copy, Debug)]
pub enum Login<'a> {
    /// With a client certificate; for a kubelet both are the same file.
    Certificate {
        /// The certificate.
        cert: Pem<'a>,
        /// Its key.
        key: Pem<'a>,
    },
    /// With a bearer token.
    Token(&'a str),
    /// With a bearer token that is read from a file.
    TokenFile(&'a Path),
}

/// A kubeconfig with one cluster, one user and one context, as YAML.
pub fn kubeconfig(server: &str, ca: Pem<'_>, login: Login<'_>) -> String {
    let ca = entry("certificate-authority", ca);
    let user = match login {
        Login::Certificate { cert, key } => {
            format!("{}\n    {}", entry("client-certificate", cert), entry("client-key", key))
        }
        Login::Token(token) => format!("token: {token}"),
        Login::TokenFile(path) => format!("tokenFile: {}", path.display()),
    };
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: lab
  cluster:
    {ca}
    server: {server}
users:
- name: lab-node
  user:
    {user}
contexts:
- name: lab-node@lab
  context:
    cluster: lab
    user: lab-node
current-context: lab-node@lab
preferences: {{}}
"
    )
}

fn entry(key: &str, pem: Pem<'_>) -> String {
    match pem {
        Pem::Inline(text) => format!("{key}-data: {}", STANDARD.encode(text)),
        Pem::File(path) => format!("{key}: {}", path.display()),
    }
}
