//! The door to tridentd, against a scripted server on a real unix socket.

mod answers;
mod calls;
mod daemon;
mod heard;
mod patience;
mod records;
mod wire;
