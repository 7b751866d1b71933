//! The generated client code of `proto/`, kept private to the room.

/// Servicing: update, rollback, commit.
#[allow(
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated code: only the generator can answer for its style"
)]
pub(super) mod v1 {
    tonic::include_proto!("trident.v1");
}

/// The status service that a daemon may lack.
#[allow(
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated code: only the generator can answer for its style"
)]
pub(super) mod v1preview {
    tonic::include_proto!("trident.v1preview");
}
