//! Fuzz targets: whatever bytes arrive are understood or refused, never a panic, never half obeyed.
//!
//! `make test` runs each for a fixed number of cases, mutations of its seeds and plain noise.
//! CONTRIBUTING.md says how to run one for longer.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod mutate;
mod omaha;
mod os_release;
mod request;
mod settings;
mod slots;
