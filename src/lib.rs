//! The agent that updates one Kubernetes node from the node itself, driven by annotations.
//!
//! The map of the crate; `docs/architecture.md` says why it is cut this way, and
//! `tests/architecture.rs` holds every room to what it may import.

/// `--validate-connection`.
pub mod check;
/// Environment to checked settings; every default once.
pub mod config;
/// The words: request, status, ids; parse and print.
pub mod contract;
/// The judgment (pure): what a request means, what an outcome means, what a boot means.
pub mod decide;
/// What this host says of itself; takes a root directory.
pub mod host;
/// Door: watch one Node, patch one Node.
pub mod kubernetes;
/// Door: Nebraska, with the Omaha rules unbreakable by type.
pub mod omaha;
/// Flow: stage, finalize, rollback, commit, report.
pub mod operate;
/// Slotted extensions: store, manifest, loading; a package of its own, for the initrd.
pub use trident_slots as slots;
/// The memory: record, store, lock.
pub mod state;
/// The steps at which it may be stopped, by name.
pub mod steps;
/// Door: transient units and their results, logind, notify, journal.
pub mod systemd;
/// Door: tridentd, typed calls with deadlines.
pub mod trident;
/// Flow: the watcher's loop and its effects.
pub mod watch;
