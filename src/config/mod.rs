//! Environment to checked settings. Every setting is declared once, in [`SETTINGS`]; an unset or empty
//! variable means its default; a malformed one ends the start.

mod allow;
mod export;
mod parse;
mod settings;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::contract::Keys;

pub use allow::AllowedServers;
pub use export::{EXPORT_PATH, Environment, exported, missing, read_export};
pub use parse::{ConfigError, Loaded};
pub use settings::{Kind, PREFIX, SETTINGS, Setting};

/// The checked settings.
#[derive(Debug, Clone)]
pub struct Config {
    pub sha384_source: Sha384Source,
    pub keys: Keys,
    pub current_version: CurrentVersion,
    pub kubernetes: Kubernetes,
    /// `unix:///path`.
    pub trident_socket: String,
    pub state_path: PathBuf,
    pub cookie_enabled: bool,
    pub cookie_path: PathBuf,
    /// Of each update-stage or rollback-stage call.
    pub stage_timeout: Duration,
    /// Of each update-finalize, rollback-finalize or commit call.
    pub finalize_timeout: Duration,
    pub heartbeat_interval: Duration,
    /// How long an armed reboot waits for an API server to take the terminal status.
    pub publish_max_wait: Duration,
    /// `None`: for ever.
    pub node_gone_max_wait: Option<Duration>,
    pub allowed_servers: AllowedServers,
    pub probe: Probe,
}

/// Where a package's COSI metadata SHA-384 comes from; never the one for want of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sha384Source {
    Labels,
    Hash,
}

/// Where the running version is read.
#[derive(Debug, Clone)]
pub struct CurrentVersion {
    pub path: PathBuf,
    pub key: String,
    pub fallback: Fallback,
}

/// What stands in for a version that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fallback {
    /// `0.0.0`.
    Zero,
    /// The operation fails.
    Error,
    /// This text, as it is.
    Verbatim(String),
}

#[derive(Debug, Clone)]
pub struct Kubernetes {
    /// Overrides the server in the kubeconfig.
    pub api_server: Option<Url>,
    pub kubeconfig: PathBuf,
    pub node_name: NodeName,
    pub validate_node_uuid: bool,
}

/// How the Node's name is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeName {
    Explicit(String),
    Hostname,
    /// The subject CN of this certificate.
    KubeletCert(PathBuf),
}

/// What `--validate-connection nebraska` asks.
#[derive(Debug, Clone)]
pub struct Probe {
    pub endpoint: Url,
    pub app_id: String,
    pub track: String,
}
