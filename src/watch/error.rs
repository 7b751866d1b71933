use std::time::Duration;

use thiserror::Error;

use crate::host::HostError;
use crate::kubernetes::{IdentityError, KubeError};
use crate::state::StoreError;
use crate::systemd::SystemdError;

/// What ends the watcher, or a pass.
#[derive(Debug, Error)]
pub enum WatchError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Systemd(#[from] SystemdError),
    #[error(transparent)]
    Kubernetes(#[from] KubeError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("cannot leave the environment for the other units in {path}")]
    Export { path: &'static str, source: std::io::Error },
    #[error("cannot wait for signals")]
    Signal { source: std::io::Error },
    #[error("the Node does not exist")]
    NodeGone,
    #[error(
        "the Node has not existed for {}, which is as long as \
         TRIDENT_ACL_AGENT_ORCHESTRATION_NODE_GONE_MAX_WAIT allows: have kubelet register it again, then \
         start trident-acl-agent.service; the state is kept",
        humantime::format_duration(*limit)
    )]
    NodeGoneTooLong { limit: Duration },
}
