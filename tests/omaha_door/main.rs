//! The door to Nebraska, against a scripted TLS server.
//!
//! Trust and proxies come from the environment, which a test must not change under its neighbours:
//! each test runs again in a process of its own, with `SSL_CERT_FILE` naming its server's certificate.

#[macro_use]
mod harness;

mod answers;
mod cookie;
mod proxy;
mod transport;
mod trust;
