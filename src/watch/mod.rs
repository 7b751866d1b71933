//! Flow: look at the Node, the state and the units; decide; do it; look again.
//!
//! The loop holds no knowledge that it could not read anew: a restarted watcher goes on where the other
//! stopped.

mod act;
mod announce;
mod error;
mod feed;
mod gate;
mod look;
mod names;
mod once;
mod run;
mod say;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use crate::config::Config;
use crate::decide::Publish;
use crate::host::Host;
use crate::kubernetes::{NodeApi, Seen};
use crate::state::Store;
use crate::systemd::{Notifier, Systemd};

use gate::Gate;

pub use error::WatchError;
pub use once::reconcile;
pub use run::run;

/// When a commit that boot has not started is overdue.
const COMMIT_OVERDUE: Duration = Duration::from_secs(300);

/// What the flow is given.
#[derive(Debug)]
pub struct Setup {
    pub config: Config,
    pub host: Host,
    /// This program, as systemd is to start it.
    pub program: PathBuf,
}

/// The flow's means.
#[derive(Debug)]
struct Watcher {
    config: Config,
    host: Host,
    program: String,
    store: Store,
    boot_id: String,
    /// Connected when it is first needed, and anew after an error.
    systemd: Option<Systemd>,
    api: Option<NodeApi>,
    node: Seen,
    notifier: Notifier,
    said: Gate,
    acted: Gate,
    delivered: Gate,
    looked: Gate,
    /// When an `InProgress` was last written by this process.
    last_beat: Option<Instant>,
    /// What was written last, and when.
    last_said: Option<(Instant, Publish)>,
    /// Why the last pass broke off; for the status line.
    trouble: Option<String>,
}

impl Watcher {
    fn new(setup: Setup) -> Result<Self, WatchError> {
        let machine_id = setup.host.machine_id()?;
        Ok(Self {
            boot_id: setup.host.boot_id()?,
            store: Store::new(&setup.config.state_path, &machine_id),
            program: setup.program.display().to_string(),
            config: setup.config,
            host: setup.host,
            systemd: None,
            api: None,
            node: Seen::Unknown,
            notifier: Notifier::default(),
            said: Gate::default(),
            acted: Gate::default(),
            delivered: Gate::default(),
            looked: Gate::default(),
            last_beat: None,
            last_said: None,
            trouble: None,
        })
    }
}
