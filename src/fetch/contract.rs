//! What the agent's source files that are taken by path know by this name.

#[path = "../contract/pem.rs"]
#[allow(unreachable_pub, reason = "in the agent it is")]
mod pem;

pub(crate) use pem::pem_certificates;
