//! The generated server (and client) code of the product's `proto/`.

/// Servicing: update, rollback, commit, version.
#[allow(clippy::all, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("trident.v1");
}

/// The status service.
#[allow(clippy::all, reason = "generated code")]
pub mod v1preview {
    tonic::include_proto!("trident.v1preview");
}
