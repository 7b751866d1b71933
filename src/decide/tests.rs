//! The table of cases: plain values in, the expected plan out.

mod agent;
mod asked;
mod case;
mod operation;
mod outcomes;
mod published;
mod reboot;
mod recovered;
mod running;
mod simulation;
mod trident;
mod world;
