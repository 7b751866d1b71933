//! `--validate-connection`: one dependency, once, with what a person can do about it.

mod advice;

use std::time::Duration;

use thiserror::Error;

use crate::config::Config;
use crate::host::{Host, HostError};
use crate::kubernetes::{IdentityError, KubeError, NodeApi, Seen, node_name};
use crate::omaha::{self, App, Client, Settings};
use crate::trident::{self, Trident};

/// Of the probe of Nebraska.
const DEADLINE: Duration = Duration::from_secs(15);

/// Why a dependency cannot be used.
#[derive(Debug, Error)]
pub enum CheckError {
    #[error("Nebraska cannot be used; check /etc/machine-id")]
    MachineId { source: HostError },
    #[error(
        "Nebraska cannot be used; check TRIDENT_ACL_AGENT_CURRENT_VERSION_PATH and \
         TRIDENT_ACL_AGENT_CURRENT_VERSION_KEY, or what TRIDENT_ACL_AGENT_CURRENT_VERSION_FALLBACK says"
    )]
    Version { source: HostError },
    #[error(
        "the name of this node is not known; set TRIDENT_ACL_AGENT_KUBERNETES_NODE_NAME, or wait for kubelet"
    )]
    Name(#[from] IdentityError),
    #[error("the API server cannot be used; {}", advice(.0))]
    Kubernetes(#[from] KubeError),
    #[error("there is no Node {0} for this machine; check TRIDENT_ACL_AGENT_KUBERNETES_NODE_NAME")]
    NodeGone(String),
    #[error("tridentd cannot be used; {}", advice::on_tridentd(.0))]
    Trident(#[from] trident::Error),
    #[error(
        "this machine or the server cannot be named; check /etc/machine-id and TRIDENT_ACL_AGENT_NEBRASKA_ENDPOINT"
    )]
    Identity(#[from] omaha::IdentityError),
    #[error("Nebraska cannot be used; {}", advice::on_nebraska(.0))]
    Nebraska(#[from] omaha::Error),
}

/// # Errors
/// [`CheckError`].
pub async fn kubernetes(config: &Config, host: &Host) -> Result<String, CheckError> {
    let name = node_name(&config.kubernetes.node_name, &host.hostname())?;
    let api = NodeApi::new(config, &name, host.product_uuid())?;
    match api.get().await? {
        Seen::Node(_) => Ok(format!("kubernetes: Node {name} can be read")),
        Seen::Unknown | Seen::Gone => Err(CheckError::NodeGone(name)),
    }
}

/// What a person can do about it.
fn advice(error: &KubeError) -> &'static str {
    match error {
        KubeError::Access { .. } => {
            "check TRIDENT_ACL_AGENT_KUBERNETES_KUBECONFIG, the file and what it names"
        }
        KubeError::Client { .. } => {
            "check what TRIDENT_ACL_AGENT_KUBERNETES_KUBECONFIG names, and, where it names no CA, SSL_CERT_FILE and SSL_CERT_DIR"
        }
        KubeError::Refused { refusal, .. } => match refusal.code {
            401 => "check the credential that the kubeconfig names: it may have expired",
            403 => {
                "check that the credential is that of this node's kubelet, and TRIDENT_ACL_AGENT_KUBERNETES_NODE_NAME: a kubelet may read no Node but its own"
            }
            300..500 if refusal.code != 429 => {
                "check the address in the kubeconfig and TRIDENT_ACL_AGENT_KUBERNETES_API_SERVER"
            }
            _ => "check how it is, and try again later",
        },
        KubeError::Transport { .. } if error.is_tls() => {
            "check certificate-authority and tls-server-name in the kubeconfig, the server's certificate and the clock"
        }
        KubeError::Transport { .. } | KubeError::TimedOut { .. } | KubeError::Broken { .. } => {
            "check the address in the kubeconfig, the network, and HTTPS_PROXY and NO_PROXY"
        }
        KubeError::NoAnswer { .. } | KubeError::TooLarge { .. } | KubeError::Request { .. } => {
            "check the address in the kubeconfig, and what stands between: something else answers"
        }
    }
}

/// # Errors
/// [`CheckError`].
pub async fn tridentd(config: &Config) -> Result<String, CheckError> {
    let version = Trident::connect(&config.trident_socket)?.version().await?;
    Ok(format!("tridentd: version {version:?} answers"))
}

/// Registers nothing and consumes nothing.
///
/// # Errors
/// [`CheckError`].
pub async fn nebraska(config: &Config, host: &Host) -> Result<String, CheckError> {
    let machine_id = host.machine_id().map_err(|source| CheckError::MachineId { source })?;
    let settings = Settings::of(config, &machine_id, DEADLINE)?;
    let probe = &config.probe;
    let app = App {
        server: probe.endpoint.clone().try_into()?,
        app_id: probe.app_id.clone(),
        track: probe.track.clone(),
    };
    let version = host.version(&config.current_version);
    let version = version.map_err(|source| CheckError::Version { source })?;
    Client::new(settings)?.probe(&app, &version).await?;
    Ok(format!(
        "nebraska: {} knows the app and the track",
        crate::contract::origin(&probe.endpoint)
    ))
}
