//! Operations, one after another in one process, between a Nebraska and a tridentd that speak the real wire.
//!
//! What only systemd can show (units, signals, reboots) is shown on booted nodes; here is what an operation
//! asks, tells, records and keeps.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "they are the product's rules on files")]

#[macro_use]
mod bench;

mod answers;
mod cookie;
mod disk;
mod events;
mod extensions;
mod resumed;
mod shapes;
mod timeouts;
mod tridentd;
