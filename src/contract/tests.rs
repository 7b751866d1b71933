//! The words against the schemas and the rules of `docs/contract.md`.

mod keys;
mod schema;
mod status;
