//! The words of the annotation contract: request, status, ids, times. `docs/contract.md` is the prose,
//! `docs/schemas/` the same for machines.

mod chain;
mod id;
mod keys;
mod message;
/// Fixed ids of records in the journal.
pub mod message_id;
mod pem;
mod redact;
mod request;
mod span;
mod status;
#[cfg(test)]
mod tests;
mod time;

pub use chain::chain;
pub use id::Id;
pub use keys::{Keys, NotASubdomain, is_dns_subdomain};
pub use message::Message;
pub use pem::pem_certificates;
pub use redact::origin;
pub use request::{Broken, Operation, Problem, Request, Update, Work};
pub use span::{commit_span, log_end, operation_span, request_span, status_span};
pub use status::{Code, Location, Phase, Status, TridentError};
pub use time::Utc;

/// The only schema version there is.
pub const SCHEMA_VERSION: &str = "1.0";

/// This agent's own version, stamped on every status.
pub const AGENT_VERSION: &str = env!("CARGO_PKG_VERSION");
