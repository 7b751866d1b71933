//! A test's view of annotation changes, with none left out.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::sync::watch;

use super::server::{Bell, Brain};
use super::store::Change;

/// Every change of every annotation since this was made, in order.
#[derive(Debug)]
pub struct Changes {
    brain: Arc<Brain>,
    bell: watch::Receiver<Bell>,
    next: usize,
}

impl Changes {
    pub(super) fn new(brain: Arc<Brain>) -> Self {
        let bell = brain.bell.subscribe();
        let next = brain.store().history.len();
        Self { brain, bell, next }
    }

    /// The changes so far that were not yet taken.
    pub fn drain(&mut self) -> Vec<Change> {
        std::iter::from_fn(|| self.take()).collect()
    }

    /// The next change.
    pub async fn next(&mut self, timeout: Duration) -> Result<Change> {
        self.wait_for(timeout, |_| true).await
    }

    /// The next change that `wanted` holds for; those before it are passed over.
    pub async fn wait_for(
        &mut self,
        timeout: Duration,
        wanted: impl FnMut(&Change) -> bool,
    ) -> Result<Change> {
        let start = self.next;
        match tokio::time::timeout(timeout, self.find(wanted)).await {
            Ok(change) => Ok(change),
            Err(_elapsed) => {
                let store = self.brain.store();
                let seen = &store.history[start..];
                Err(anyhow!("no such annotation change within {timeout:?}; seen: {seen:#?}"))
            }
        }
    }

    async fn find(&mut self, mut wanted: impl FnMut(&Change) -> bool) -> Change {
        loop {
            self.bell.borrow_and_update();
            while let Some(change) = self.take() {
                if wanted(&change) {
                    return change;
                }
            }
            // Cannot fail: the brain keeps the sender.
            let _ = self.bell.changed().await;
        }
    }

    fn take(&mut self) -> Option<Change> {
        let change = self.brain.store().history.get(self.next).cloned()?;
        self.next += 1;
        Some(change)
    }
}
