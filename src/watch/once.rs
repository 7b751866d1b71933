//! One pass, for nodes that want nothing resident.

use tracing::info;

use super::run::export_environment;
use super::{Setup, WatchError, Watcher};
use crate::kubernetes::{NodeApi, Seen, node_name};

/// Reads the Node once, does all that can be done now, and returns.
///
/// # Errors
/// What the next pass may find better: an API server that is away, a Node that does not exist.
pub async fn reconcile(setup: Setup) -> Result<(), WatchError> {
    export_environment()?;
    let mut watcher = Watcher::new(setup)?;
    let read = read_node(&mut watcher).await;
    // Without the Node, what is under way on the host still goes on: the reboot, an overdue commit.
    watcher.pass().await;
    read?;
    info!("one pass done");
    Ok(())
}

async fn read_node(watcher: &mut Watcher) -> Result<(), WatchError> {
    let config = &watcher.config;
    let name = node_name(&config.kubernetes.node_name, &watcher.host.hostname())?;
    let api = NodeApi::new(config, &name, watcher.host.product_uuid())?;
    watcher.node = api.get().await?;
    watcher.api = Some(api);
    match watcher.node {
        Seen::Gone => Err(WatchError::NodeGone),
        Seen::Node(_) | Seen::Unknown => Ok(()),
    }
}
