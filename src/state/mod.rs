//! The memory: one file that must survive a crash and a power cut. Written before the world is changed,
//! flushed before anything depends on it.

mod file;
mod found;
mod record;
mod salvage;
mod store;
#[cfg(test)]
mod tests;

pub use file::replace;
pub use record::{
    Arming, CommitRecord, Completed, EventKind, InFlight, LOST_BOOT, Offer, OwedEvent,
    PendingCommit, Refused, Staged, State,
};
pub use store::{OperationLock, Store, StoreError};
