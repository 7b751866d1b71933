//! The lab: stand-ins for the agent's neighbours, at the wire, and a node that really runs systemd.

/// The real kube-apiserver, etcd and kubectl.
pub mod control_plane;
/// A disk that is full or read-only.
pub mod disk;
/// A Kubernetes API that serves one Node.
pub mod kube;
/// All of it together: a node with the agent, and its neighbours.
pub mod lab;
/// A Nebraska: the update server's per-instance state machine.
pub mod nebraska;
/// A booted Debian in a container, and its root file systems.
pub mod node;
/// A test in a process of its own.
pub mod own_process;
/// The product's JSON Schemas, in a real validator.
pub mod schema;
/// Where the test build's processes are stopped.
pub mod stops;
/// Cases that several test targets share.
pub mod tables;
/// Certificates for the stand-ins.
pub mod tls;
/// A tridentd with two slots.
pub mod trident;
/// The server code of `proto/`.
pub mod wire;
