//! The real kube-apiserver on a real etcd, and the real kubectl, in a network of their own.
#![allow(clippy::disallowed_methods, reason = "they are the product's rules on files and waiting")]

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::time::{Instant, sleep};

mod arguments;
mod costs;
mod keeper;
mod kubectl;
mod observer;
mod programs;
mod relay;
mod servers;

pub use costs::Costs;
pub use kubectl::Kubectl;

use observer::Observer;
use relay::Relay;
use servers::Servers;

use crate::kube::contract::breach;
use crate::kube::{ApiServer, Change, fresh_node};
use crate::tls::{Credential, Login, Pem, Pki, kubeconfig};

const READY_LIMIT: Duration = Duration::from_secs(120);

/// How the API server ends.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// It is asked to, and ends its watches in order.
    InOrder,
    /// It is killed.
    Killed,
}

/// A running control plane; dropped, nothing is left of it.
#[derive(Debug)]
pub struct ControlPlane {
    relays: Mutex<Vec<Relay>>,
    observer: Option<Observer>,
    admin: Kubectl,
    servers: Arc<Servers>,
    pki: Pki,
}

impl ControlPlane {
    /// Starts it, and waits until it is ready.
    pub async fn start(pki: &Pki) -> Result<Self> {
        let mut plane = Self::start_unwatched(pki).await?;
        let (admin, servers) = (plane.admin.clone(), Arc::clone(&plane.servers));
        plane.observer = Some(Observer::start(admin, servers)?);
        Ok(plane)
    }

    /// One that nobody watches beside the agent, and that has no history therefore.
    pub async fn start_unwatched(pki: &Pki) -> Result<Self> {
        let servers = Arc::new(Servers::start(pki)?);
        let admin = user(&servers, pki, &pki.client_cert("admin", "system:masters"), "admin")?;
        ready(&servers, &admin).await?;
        let (relays, pki) = (Mutex::default(), pki.clone());
        Ok(Self { relays, observer: None, admin, servers, pki })
    }

    /// kubectl for somebody who may do everything.
    pub fn admin(&self) -> &Kubectl {
        &self.admin
    }

    /// kubectl for a user by certificate.
    pub fn user(&self, name: &str, group: &str) -> Result<Kubectl> {
        user(&self.servers, &self.pki, &self.pki.client_cert(name, group), name)
    }

    /// kubectl as the kubelet of a Node.
    pub fn kubelet(&self, node: &str) -> Result<Kubectl> {
        self.user(&format!("system:node:{node}"), "system:nodes")
    }

    /// kubectl with a bearer token.
    pub fn bearer(&self, name: &str, token: &str) -> Result<Kubectl> {
        let ca = self.pki.ca_pem();
        let config = kubeconfig(&self.servers.url(), Pem::Inline(&ca), Login::Token(token));
        Kubectl::new(Arc::clone(&self.servers), name, &config)
    }

    /// Stops the API server; etcd goes on.
    pub fn stop(&self, how: Stop) -> Result<()> {
        self.servers.stop_api_server(match how {
            Stop::InOrder => Signal::SIGTERM,
            Stop::Killed => Signal::SIGKILL,
        })
    }

    /// Starts the API server again, and waits until it is ready.
    pub async fn start_again(&self) -> Result<()> {
        self.servers.start_api_server()?;
        ready(&self.servers, &self.admin).await
    }

    /// A second API server on the same etcd takes over, then the first ends in order: to a client, a server
    /// that is there all the time and has forgotten what was.
    pub async fn replace(&self) -> Result<()> {
        let first = self.servers.start_another()?;
        ready(&self.servers, &self.admin).await?;
        self.servers.end(first, Signal::SIGTERM)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if let Some(observer) = &mut self.observer {
            observer.stop(|| self.servers.kill());
        }
    }
}

impl ApiServer for ControlPlane {
    fn add_node(&self, name: &str) -> Result<()> {
        let node = fresh_node(name).to_string();
        self.admin.run_with(&["create", "-f", "-"], &node)?.text()?;
        Ok(())
    }

    fn annotate(&self, node: &str, key: &str, value: Option<&str>) -> Result<()> {
        let change = value.map_or(format!("{key}-"), |value| format!("{key}={value}"));
        self.admin.expect(&["annotate", "node", node, "--overwrite", &change])?;
        Ok(())
    }

    fn history(&self, node: &str) -> Vec<Change> {
        let mut history = self.observer.as_ref().map(Observer::whole_history).unwrap_or_default();
        history.retain(|change| change.node == node);
        history
    }

    fn check_statuses(&self) -> Result<()> {
        let history = self.observer.as_ref().map(Observer::whole_history).unwrap_or_default();
        for (place, change) in history.iter().enumerate() {
            let breach = breach(history.get(..place).unwrap_or_default(), change);
            ensure!(breach.is_none(), "{breach:?}");
        }
        Ok(())
    }

    fn serve(&self, listener: TcpListener) -> Result<()> {
        let relay = Relay::start(listener, Arc::clone(&self.servers))?;
        self.relays.lock().expect("no panic under lock").push(relay);
        Ok(())
    }

    async fn wait_for_annotation(
        &self,
        node: &str,
        key: &str,
        limit: Duration,
        wanted: impl Fn(&Value) -> bool + Send,
    ) -> Result<Value> {
        let mut bell = self.observer.as_ref().context("nobody watches")?.subscribe();
        let found = || {
            let history = self.history(node);
            history.iter().rev().filter(|c| c.key == key).map(Change::json).find(|v| wanted(v))
        };
        let waited = tokio::time::timeout(limit, async {
            loop {
                bell.borrow_and_update();
                if let Some(value) = found() {
                    return value;
                }
                // Cannot fail: the observer keeps the sender.
                let _ = bell.changed().await;
            }
        });
        waited.await.with_context(|| {
            format!("no such {key} within {limit:?}; seen: {:#?}", self.history(node))
        })
    }
}

fn user(servers: &Arc<Servers>, pki: &Pki, credential: &Credential, name: &str) -> Result<Kubectl> {
    let ca = pki.ca_pem();
    let (cert, key) = (Pem::Inline(&credential.cert_pem), Pem::Inline(&credential.key_pem));
    let login = Login::Certificate { cert, key };
    let config = kubeconfig(&servers.url(), Pem::Inline(&ca), login);
    Kubectl::new(Arc::clone(servers), name, &config)
}

async fn ready(servers: &Servers, admin: &Kubectl) -> Result<()> {
    let begun = Instant::now();
    while servers.connect().is_err() || admin.run(&["get", "--raw", "/readyz"])?.code != Some(0) {
        servers.check_alive()?;
        ensure!(begun.elapsed() < READY_LIMIT, "it is never ready\n{}", servers.story());
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
