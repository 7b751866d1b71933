//! `--validate-connection` of Nebraska and tridentd: the built program, its exit status, and the one line that
//! tells a person what to do next.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "they are the product's rules on files")]

mod nebraska;
#[path = "../program/mod.rs"]
mod program;
mod tridentd;
