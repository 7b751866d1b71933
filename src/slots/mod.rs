//! Slotted extensions: each slot of an A/B host has its own set of extension images, and the set that
//! merges is chosen at every boot from the slot that booted.
//!
//! A package of its own, for the loader in the initrd: no runtime, no network. The agent's crate shows it
//! as its room `slots`. Every path is below the root of a host tree.

mod booted;
#[path = "../contract/chain.rs"]
mod chain;
mod command_line;
mod durable;
mod fields;
mod gpt;
mod keep;
mod links;
mod load;
mod manifest;
mod mounts;
mod object;
mod overlay;
mod pending;
mod publish;
mod recover;
mod release;
mod report;
mod stage;
mod store;
#[cfg(test)]
mod tests;
mod tree;
mod word;

pub use booted::{BootedError, booted_slot};
pub use chain::chain;
pub use command_line::CommandLine;
pub use fields::Fields;
pub use keep::{Damage, Difference, KeepError, Listing, What};
pub use load::{Options, load};
pub use manifest::{Extension, Manifest, ManifestError, Mode, SCHEMA_VERSION, Source, SourceKind};
pub use pending::{ConfirmError, Pending, Proof, confirm_boot};
pub use recover::{LastFailure, RecoverError, recover};
pub use release::{ReleaseError, id_of, parse_release};
pub use report::{Failure, LeftOut, Outcome, Published, REPORT_PATH, Report, Step};
pub use stage::{
    Address, Bundle, BundleError, Event, Files, FillError, Known, MAX_METADATA, Member, Origin,
    Place, Problem, Slotted, Sources, StageError, Staged, Staging, Take, Wanted, stage,
};
pub use store::{DEFAULT_STORE, ImageError, Store, StoreError};
pub use tree::{Tree, TreeError};
pub use word::{Hash, Id, Kind, Name, Sha384, Slot, Strategy, Word};
