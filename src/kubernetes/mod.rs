//! Door: the one Node of this machine. Reads and watches metadata only, so that the API server sends about
//! a kilobyte per event; where the Node's identity is to be checked, the whole Node is read, and only its
//! `systemUUID` is looked at. Of its annotations, ours are kept.

mod access;
mod client;
mod error;
mod identity;
mod kubeconfig;
mod machine;
mod node;
mod proxy;
mod watch;
mod wire;

pub use access::AccessError;
pub use client::NodeApi;
pub use error::{KubeError, Refusal, Retry};
pub use identity::{IdentityError, node_name};
pub use node::{Node, Seen};
pub use watch::{Heard, Watch};
