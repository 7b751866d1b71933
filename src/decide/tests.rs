//! The table of cases: plain values in, the expected plan out.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a case that is not the expected one is a failed test"
)]

mod agent;
mod asked;
mod case;
mod codes;
mod operation;
mod outcomes;
mod published;
mod reboot;
mod recovered;
mod running;
mod simulation;
mod trident;
mod world;
