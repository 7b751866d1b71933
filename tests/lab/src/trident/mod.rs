//! A tridentd with two slots, and the firmware that boots them.
//!
//! It speaks the real wire on a unix socket and keeps its state in a directory, so that a new
//! instance goes on where an older one was. Tests script single calls ([`Script`]) and read what
//! was called ([`CallRecord`]).
#![allow(clippy::disallowed_methods, reason = "they are the product's rules on files and waiting")]

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::runtime::{Builder, Runtime};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

mod authority;
mod config;
mod record;
mod script;
mod services;
mod servicing;
mod shared;
mod world;

/// The generated wire types, clients and servers.
pub use crate::wire as proto;
pub use record::{CallRecord, Method, Outcome};
pub use script::{Fault, Gate, Record, Script};
pub use world::Slot;

use authority::Localhost;
use proto::v1::commit_service_server::CommitServiceServer;
use proto::v1::rollback_service_server::RollbackServiceServer;
use proto::v1::update_service_server::UpdateServiceServer;
use proto::v1::version_service_server::VersionServiceServer;
use proto::v1preview::ServicingState;
use proto::v1preview::status_service_server::StatusServiceServer;
use script::Latch;
use services::Services;
use shared::Shared;

/// What happens to a servicing call when the daemon stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight {
    /// It dies with the daemon, without effect.
    Abort,
    /// It loses its client, but runs to its end.
    Finish,
}

/// What the firmware booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootedSlot {
    /// The slot.
    pub slot: Slot,
    /// The version on it.
    pub version: String,
}

impl BootedSlot {
    /// The text of its `/etc/os-release`.
    pub fn os_release(&self) -> String {
        let (version, slot) = (&self.version, self.slot);
        format!(
            "ID=acl\nID_LIKE=debian\nNAME=\"Lab Linux\"\nPRETTY_NAME=\"Lab Linux {version} (slot {slot:?})\"\n\
             VERSION=\"{version}\"\nVERSION_ID={version}\n"
        )
    }
}

/// A handle of the daemon; clones are the same daemon. The last one stops it.
#[derive(Clone)]
pub struct Tridentd {
    owner: Arc<Owner>,
}

struct Owner {
    shared: Arc<Shared>,
    socket: PathBuf,
    /// The connections: gone with a stop.
    wire: Mutex<Option<Runtime>>,
    /// The servicing calls: a stop can let them finish. Their own threads, so that a blocking test
    /// does not stop them.
    work: Option<Runtime>,
}

impl fmt::Debug for Tridentd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tridentd").field("socket", &self.owner.socket).finish_non_exhaustive()
    }
}

impl Tridentd {
    /// Starts a daemon. State in `state_dir` is gone on from; without any, `version` is installed
    /// on slot A.
    pub fn start_new(state_dir: &Path, socket: &Path, version: &str) -> Result<Self> {
        let work = runtime("tridentd-work")?;
        let shared = Shared::open(state_dir, version, work.handle().clone())?;
        let wire = Mutex::new(None);
        let owner = Owner { shared, socket: socket.to_path_buf(), wire, work: Some(work) };
        let daemon = Self { owner: Arc::new(owner) };
        daemon.start()?;
        Ok(daemon)
    }

    /// Listens again after a [`stop`](Self::stop).
    pub fn start(&self) -> Result<()> {
        let mut wire = self.owner.wire.lock().expect("no panic under the lock");
        if wire.is_some() {
            bail!("it listens already");
        }
        let runtime = runtime("tridentd-wire")?;
        let listener = listen(&self.owner.socket)?;
        runtime.spawn(answer(listener, Arc::clone(&self.owner.shared)));
        *wire = Some(runtime);
        Ok(())
    }

    /// Dies: the socket goes, connections break. Returns when they have.
    pub fn stop(&self, in_flight: InFlight) {
        let _ = fs::remove_file(&self.owner.socket);
        let wire = self.owner.wire.lock().expect("no panic under the lock").take();
        if let Some(runtime) = wire {
            // Waiting for a runtime's end is not allowed within another one.
            let ended = std::thread::spawn(|| runtime.shutdown_timeout(Duration::from_secs(5)));
            let _ = ended.join();
        }
        // After the connections: an aborted call would else end its stream in order.
        if in_flight == InFlight::Abort {
            self.owner.shared.abort_all();
        }
    }

    /// The socket that it listens on.
    pub fn socket(&self) -> &Path {
        &self.owner.socket
    }

    /// Makes an image known: a stage of this URL gives this version.
    pub fn add_image(&self, url: &str, version: &str) {
        self.shared().lock().images.insert(url.to_owned(), version.to_owned());
    }

    /// Scripts the next call of a method that is not scripted yet. Calls refused as busy take no
    /// script.
    pub fn next(&self, method: Method, script: Script) {
        self.shared().lock().scripts.entry(method).or_default().push_back(script);
    }

    /// Forgets the scripts of calls that did not come.
    pub fn forget_scripts(&self) {
        self.shared().lock().scripts.clear();
    }

    /// Scripts the next call to wait at a gate.
    pub fn hold(&self, method: Method, mut script: Script) -> Gate {
        let latch = Latch::new();
        script.gate = Some(Arc::clone(&latch));
        self.next(method, script);
        Gate(latch)
    }

    /// Whether the preview status service answers (it does at first) or is `UNIMPLEMENTED`.
    pub fn offer_status_service(&self, offer: bool) {
        self.shared().lock().has_status_service = offer;
    }

    /// Every call so far, oldest first.
    pub fn calls(&self) -> Vec<CallRecord> {
        self.shared().lock().calls.clone()
    }

    /// The calls of one method, oldest first.
    pub fn calls_of(&self, method: Method) -> Vec<CallRecord> {
        self.calls().into_iter().filter(|call| call.method == method).collect()
    }

    /// Authorities other than `localhost` that requests came with; all were refused.
    pub fn strangers(&self) -> Vec<String> {
        self.shared().lock().strangers.clone()
    }

    /// Waits until so many calls of a method have ended.
    pub async fn wait_ended(&self, method: Method, count: usize, limit: Duration) -> Result<()> {
        let mut changed = self.shared().changed.subscribe();
        let ended = || self.calls_of(method).iter().filter(|call| call.ended.is_some()).count();
        let enough = changed.wait_for(|()| ended() >= count);
        let waited = tokio::time::timeout(limit, enough).await;
        waited
            .with_context(|| format!("waited {limit:?} for {method:?}: {:?}", self.calls()))??;
        Ok(())
    }

    /// What the daemon would answer for its servicing state.
    pub fn servicing_state(&self) -> ServicingState {
        self.shared().world().servicing_state()
    }

    /// Commits as another unit of the node would, unrecorded. True if that succeeded.
    pub fn commit_elsewhere(&self) -> bool {
        matches!(self.shared().change(world::World::commit), world::Answer::Done { .. })
    }

    /// The firmware boots: the armed slot, once, else the last committed one. Call it before each
    /// boot.
    pub fn firmware_boot(&self) -> BootedSlot {
        let fail = std::mem::take(&mut self.shared().lock().fail_next_boot);
        let slot = self.shared().change(|world| world.boot(fail));
        self.booted(slot)
    }

    /// The next armed boot comes up on the old slot.
    pub fn fail_next_boot(&self) {
        self.shared().lock().fail_next_boot = true;
    }

    /// What is booted now.
    pub fn booted_slot(&self) -> BootedSlot {
        let slot = self.shared().world().booted();
        self.booted(slot)
    }

    fn booted(&self, slot: Slot) -> BootedSlot {
        let version = self.shared().world().version(slot).unwrap_or_default().to_owned();
        BootedSlot { slot, version }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
        let wire = self.wire.get_mut().ok().and_then(Option::take);
        for runtime in wire.into_iter().chain(self.work.take()) {
            runtime.shutdown_background();
        }
    }
}

fn runtime(name: &str) -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).thread_name(name).enable_all();
    builder.build().context("cannot make a runtime")
}

fn listen(socket: &Path) -> Result<UnixListener> {
    let _ = fs::remove_file(socket);
    let listener =
        UnixListener::bind(socket).with_context(|| format!("cannot bind {}", socket.display()))?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn answer(listener: UnixListener, shared: Arc<Shared>) {
    let listener = tokio::net::UnixListener::from_std(listener).expect("a listener in a runtime");
    let services = Services(Arc::clone(&shared));
    let served = Server::builder()
        .add_service(Localhost::new(UpdateServiceServer::new(services.clone()), &shared))
        .add_service(Localhost::new(RollbackServiceServer::new(services.clone()), &shared))
        .add_service(Localhost::new(CommitServiceServer::new(services.clone()), &shared))
        .add_service(Localhost::new(VersionServiceServer::new(services.clone()), &shared))
        .add_service(Localhost::new(StatusServiceServer::new(services), &shared))
        .serve_with_incoming(UnixListenerStream::new(listener));
    if let Err(error) = served.await {
        eprintln!("lab: tridentd ended: {error}");
    }
}
