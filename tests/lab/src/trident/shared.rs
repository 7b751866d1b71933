//! The one state behind all services, each change of it on disk before it is seen.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tonic::Status;

use super::record::{CallRecord, Method, Outcome};
use super::script::{Ending, Script};
use super::world::World;

#[derive(Debug)]
pub(super) struct Inner {
    world: World,
    pub(super) images: HashMap<String, String>,
    pub(super) scripts: HashMap<Method, VecDeque<Script>>,
    pub(super) calls: Vec<CallRecord>,
    pub(super) strangers: Vec<String>,
    pub(super) busy: bool,
    pub(super) fail_next_boot: bool,
    pub(super) has_status_service: bool,
    pub(super) daemon_version: String,
    tasks: Vec<AbortHandle>,
}

#[derive(Debug)]
pub(super) struct Shared {
    inner: Mutex<Inner>,
    state_file: PathBuf,
    work: Handle,
    /// Sent to whenever a call begins or ends.
    pub(super) changed: watch::Sender<()>,
}

impl Shared {
    /// Goes on from the state in the directory; a new one is provisioned with a version on slot A.
    pub(super) fn open(dir: &Path, version: &str, work: Handle) -> Result<Arc<Self>> {
        let state_file = dir.join("tridentd.json");
        let world = match fs::read(&state_file) {
            Ok(bytes) => serde_json::from_slice(&bytes).context("cannot read tridentd's state")?,
            Err(_) => World::new(version),
        };
        let inner = Inner {
            world,
            images: HashMap::new(),
            scripts: HashMap::new(),
            calls: Vec::new(),
            strangers: Vec::new(),
            busy: false,
            fail_next_boot: false,
            has_status_service: true,
            daemon_version: "0.31.0-lab".to_owned(),
            tasks: Vec::new(),
        };
        let shared =
            Self { inner: Mutex::new(inner), state_file, work, changed: watch::Sender::new(()) };
        shared.change(|_| {});
        Ok(Arc::new(shared))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no panic under the lock")
    }

    pub(super) fn world(&self) -> World {
        self.lock().world.clone()
    }

    pub(super) fn change<T>(&self, work: impl FnOnce(&mut World) -> T) -> T {
        let mut inner = self.lock();
        let result = work(&mut inner.world);
        let bytes = serde_json::to_vec_pretty(&inner.world).expect("plain data");
        let new = self.state_file.with_extension("new");
        let written = fs::write(&new, bytes).and_then(|()| fs::rename(&new, &self.state_file));
        written.expect("the state directory is writable");
        result
    }

    pub(super) fn stranger(&self, authority: String) {
        self.lock().strangers.push(authority);
    }

    /// Records a call; the number is for [`end`](Self::end).
    pub(super) fn note(&self, method: Method, request: Value, authority: String) -> usize {
        let started = Instant::now();
        let call = CallRecord { method, request, authority, started, ended: None, outcome: None };
        let mut inner = self.lock();
        inner.calls.push(call);
        let number = inner.calls.len() - 1;
        drop(inner);
        self.changed.send_replace(());
        number
    }

    pub(super) fn end(&self, number: usize, outcome: Outcome) {
        if let Some(call) = self.lock().calls.get_mut(number) {
            call.ended = Some(Instant::now());
            call.outcome = Some(outcome);
        }
        self.changed.send_replace(());
    }

    /// Takes the script of a servicing call, unless another one runs or the script refuses it.
    pub(super) fn begin(&self, method: Method) -> Result<Script, Status> {
        let mut inner = self.lock();
        if inner.busy {
            return Err(Status::unavailable("busy: another servicing call runs"));
        }
        let next = inner.scripts.get_mut(&method).and_then(VecDeque::pop_front);
        let script = next.unwrap_or_default();
        if let Ending::Refuse(code, message) = &script.ending {
            return Err(Status::new(*code, message));
        }
        inner.busy = true;
        Ok(script)
    }

    /// Takes the script of a unary call, which can only be to refuse it.
    pub(super) fn begin_unary(&self, method: Method) -> Result<(), Status> {
        let next = self.lock().scripts.get_mut(&method).and_then(VecDeque::pop_front);
        match next.map(|script| script.ending) {
            Some(Ending::Refuse(code, message)) => Err(Status::new(code, message)),
            _ => Ok(()),
        }
    }

    /// Runs a servicing call to its end, whatever becomes of its client.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let task = self.work.spawn(work).abort_handle();
        let mut inner = self.lock();
        inner.tasks.retain(|task| !task.is_finished());
        inner.tasks.push(task);
    }

    pub(super) fn abort_all(&self) {
        for task in self.lock().tasks.drain(..) {
            task.abort();
        }
    }
}
