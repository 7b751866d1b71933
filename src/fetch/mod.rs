//! Images of slotted extensions from servers, registries and COSI files: what `trident-slotctl` links beyond the
//! slots themselves. Everything outside is read as a plain reader, so that the slots know of no runtime.

mod body;
mod contract;
mod cosi;
mod error;
mod network;
#[path = "../omaha/proxy.rs"]
mod proxy;
mod remote;
mod tarball;
#[path = "../omaha/trust.rs"]
mod trust;
mod web;
mod zstd;

mod oci;

pub use error::FetchError;
pub use network::Network;
