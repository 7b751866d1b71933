//! The table of cases: plain values in, the expected plan out.

mod asked;
mod case;
mod outcomes;
mod published;
mod reboot;
mod recovered;
mod running;
mod simulation;
mod world;
