use std::future::Future;
use std::time::Duration;

use tokio::time::interval;
use tracing::warn;

use super::{OperateError, Setup};
use crate::config::Config;
use crate::host::{Host, alive};
use crate::omaha::{Client, Settings};
use crate::state::{OperationLock, Store};
use crate::trident::Trident;

/// Of one exchange with Nebraska.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// What an operation works with.
#[derive(Debug)]
pub(super) struct Means {
    pub(super) config: Config,
    pub(super) host: Host,
    pub(super) store: Store,
    pub(super) boot_id: String,
    pub(super) trident: Trident,
    machine_id: String,
}

impl Means {
    pub(super) fn new(setup: Setup) -> Result<Self, OperateError> {
        let machine_id = setup.host.machine_id()?;
        let trident = Trident::connect(&setup.config.trident_socket)
            .map_err(|source| OperateError::Trident { source })?;
        Ok(Self {
            store: Store::new(&setup.config.state_path, &machine_id),
            boot_id: setup.host.boot_id()?,
            machine_id,
            trident,
            config: setup.config,
            host: setup.host,
        })
    }

    /// Made when it is needed: a commit needs none, and does without the CA certificates.
    pub(super) fn nebraska(&self) -> Result<Client, OperateError> {
        let settings = Settings::of(&self.config, &self.machine_id, DEADLINE)?;
        Client::new(settings).map_err(|source| OperateError::Client { source })
    }

    pub(super) fn lock(&self) -> Result<OperationLock, OperateError> {
        self.store.lock_operation()?.ok_or(OperateError::Busy)
    }
}

/// Runs it, and leaves a sign of life for as long as this process can.
pub(super) async fn breathing<T>(work: impl Future<Output = T>) -> T {
    let breathe = async {
        let mut beat = interval(alive::INTERVAL);
        let mut warned = false;
        loop {
            beat.tick().await;
            if let Err(error) = alive::leave()
                && !std::mem::replace(&mut warned, true)
            {
                warn!(%error, "cannot leave a sign of life, the heartbeat on the Node will stop, ignoring");
            }
        }
    };
    // The work is never dropped before it ends: the other arm has no end.
    tokio::select! {
        done = work => done,
        never = breathe => never,
    }
}
