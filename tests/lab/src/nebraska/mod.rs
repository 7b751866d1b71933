//! A Nebraska: answers Omaha requests and keeps a state machine for each instance.

use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::Result;

use crate::tls::faults::Rule;
use crate::tls::serve::{Connections, Front, Listening, RequestRecord, server_config};
use crate::tls::{Credential, Pki};

mod fleet;
mod instance;
mod package;
mod request;
mod response;
mod server;

pub use instance::{DropReason, DroppedEvent, Instance, InstanceEvent, InstanceStatus, Limits};
pub use package::{ExtraPackage, LabelForm, LabelPlace, PackageSpec, SHA384_LABEL};
pub use request::{AppRequest, Attributes, EventRequest, OmahaRequest};
pub use server::Cookies;

pub use crate::tls::faults::{Fault, Verb};

use server::{Server, World};

/// The names in the server's certificate unless a test gives its own.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The stand-in's handle; clones share it.
#[derive(Clone)]
pub struct Nebraska {
    world: Arc<Mutex<World>>,
    front: Front,
}

impl Nebraska {
    /// A server with a certificate for the loopback names, and nothing to offer.
    pub fn new(pki: &Pki) -> Self {
        Self::with_names(pki, &NAMES)
    }

    /// A server with a certificate for these names and addresses.
    pub fn with_names(pki: &Pki, names: &[&str]) -> Self {
        let world = Arc::<Mutex<World>>::default();
        let tls = server_config(&pki.server_cert(names), None);
        let service = Arc::new(Server(world.clone()));
        Self { world, front: Front::new(service, tls.expect("a fresh certificate is usable")) }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no panic under lock")
    }

    /// Serves on a bound listener; may be called for several. Needs a tokio runtime.
    pub fn serve(&self, listener: TcpListener) -> Result<Listening> {
        self.front.serve(listener)
    }

    /// Replaces the server's certificate for new connections.
    pub fn set_server_cert(&self, credential: &Credential) -> Result<()> {
        self.front.set_tls(server_config(credential, None)?);
        Ok(())
    }

    /// Makes a group for amd64 that has no package yet.
    pub fn add_group(&self, app_id: &str, track: &str) {
        self.world().fleet.add_group(app_id, track);
    }

    /// Points a group's channel to a package, making the group if there is none. Of several
    /// packages the last one is offered, floors apart.
    pub fn add_package(&self, app_id: &str, track: &str, package: PackageSpec) {
        self.world().fleet.add_package(app_id, track, package);
    }

    /// Takes all packages out of a group.
    pub fn clear_packages(&self, app_id: &str, track: &str) {
        self.world().fleet.clear_packages(app_id, track);
    }

    /// Limits a group. Panics if it does not exist.
    pub fn set_group_limits(&self, app_id: &str, track: &str, limits: Limits) {
        self.world().fleet.set_limits(app_id, track, limits);
    }

    /// Refuses update checks of a group with an app status such as `error-noPackageFound`; limits
    /// and disabled updates only where there would be an offer.
    pub fn refuse(&self, app_id: &str, track: &str, status: Option<&str>) {
        self.world().fleet.set_refusal(app_id, track, status);
    }

    /// Sets when answers carry an affinity cookie.
    pub fn set_cookies(&self, cookies: Cookies) {
        self.world().style.cookies = cookies;
    }

    /// The cookies that answers have set, as `name=value`.
    pub fn cookies_set(&self) -> Vec<String> {
        self.world().cookies_set.clone()
    }

    /// Puts an app of somebody else before the one asked about.
    pub fn set_foreign_app_first(&self, on: bool) {
        self.world().style.foreign_app_first = on;
    }

    /// Answers 200 with this body; requests are processed all the same.
    pub fn set_raw_response(&self, body: Option<&str>) {
        self.world().style.raw = body.map(str::to_owned);
    }

    /// Every instance, in order of registration.
    pub fn instances(&self) -> Vec<Instance> {
        self.world().fleet.instances()
    }

    /// The first instance of a machine.
    pub fn instance(&self, machine_id: &str) -> Option<Instance> {
        self.instances().into_iter().find(|instance| instance.machine_id == machine_id)
    }

    /// Every event that was acknowledged and had no effect.
    pub fn dropped_events(&self) -> Vec<DroppedEvent> {
        self.world().fleet.dropped.clone()
    }

    /// Every Omaha request that could be parsed, those answered by a fault included.
    pub fn requests(&self) -> Vec<OmahaRequest> {
        self.world().requests.clone()
    }

    /// Every HTTP request.
    pub fn http_requests(&self) -> Vec<RequestRecord> {
        self.front.records()
    }

    /// How many connections there have been.
    pub fn connections(&self) -> Connections {
        self.front.connections()
    }

    /// Waits until `done` holds for the requests.
    pub async fn wait_for(
        &self,
        timeout: Duration,
        done: impl Fn(&[OmahaRequest]) -> bool,
    ) -> Result<Vec<OmahaRequest>> {
        let look = || Some(self.requests()).filter(|requests| done(requests));
        self.front.wait_until(timeout, look).await
    }

    /// Waits until a machine's current status is this one.
    pub async fn wait_for_status(
        &self,
        machine_id: &str,
        status: InstanceStatus,
        timeout: Duration,
    ) -> Result<Instance> {
        let look = || self.instance(machine_id).filter(|instance| instance.status == status);
        self.front.wait_until(timeout, look).await
    }

    /// Fails from now on.
    pub fn inject(&self, rule: impl Into<Rule>) {
        self.front.inject(rule.into());
    }

    /// Stops failing; connections that went silent stay silent.
    pub fn clear_faults(&self) {
        self.front.clear_faults();
    }

    /// Resets every established connection.
    pub fn reset_connections(&self) {
        self.front.reset_connections();
    }
}
