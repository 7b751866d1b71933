//! Fuzz targets: whatever bytes arrive are understood or refused, never a panic, never half obeyed.
//!
//! `make test` runs each for a fixed number of cases, mutations of its seeds and plain noise.
//! With `cargo-bolero` and a nightly toolchain, `cargo bolero test fuzz` lets a coverage-guided fuzzer run the same targets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod mutate;
mod omaha;
mod slots;

#[test]
fn skeleton() {
    mutate::each(&["{}"], |bytes| assert!(bytes.len() < 1 << 20));
}
