//! Sees every change of the Nodes' annotations: a watch that goes on where it was, whatever happens to the server.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::sync::watch;

use super::kubectl::Kubectl;
use super::servers::Servers;
use crate::kube::{Author, Change};

/// The field manager under which the agent writes.
const AGENT: &str = "trident-acl-agent";
const AGAIN: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
struct Seen {
    history: Vec<Change>,
    annotations: BTreeMap<String, BTreeMap<String, String>>,
    /// Where the next watch goes on.
    version: String,
}

#[derive(Debug)]
struct Notes {
    seen: Mutex<Seen>,
    bell: watch::Sender<usize>,
    over: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Observer {
    notes: Arc<Notes>,
    thread: Option<JoinHandle<()>>,
}

impl Observer {
    pub(super) fn start(admin: Kubectl, servers: Arc<Servers>) -> Result<Self> {
        let seen = Mutex::new(Seen { version: "0".into(), ..Seen::default() });
        let notes = Arc::new(Notes { seen, bell: watch::Sender::new(0), over: false.into() });
        let working = Arc::clone(&notes);
        let thread = thread::Builder::new().name("lab-observer".into()).spawn(move || {
            while !working.over.load(Ordering::Relaxed) {
                if working.follow(&admin, &servers).is_err() {
                    thread::sleep(AGAIN);
                }
            }
        })?;
        Ok(Self { notes, thread: Some(thread) })
    }

    /// Ends when the watch does, so `end_watch` must end it.
    pub(super) fn stop(&mut self, end_watch: impl FnOnce()) {
        self.notes.over.store(true, Ordering::Relaxed);
        end_watch();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Of all Nodes.
    pub(super) fn whole_history(&self) -> Vec<Change> {
        self.notes.lock().history.clone()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<usize> {
        self.notes.bell.subscribe()
    }
}

impl Notes {
    /// One watch, until it ends.
    fn follow(&self, admin: &Kubectl, servers: &Servers) -> Result<()> {
        let version = self.lock().version.clone();
        let path = format!("/api/v1/nodes?watch=1&resourceVersion={version}");
        let mut command = admin.command(&["get", "--raw", &path]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = servers.spawn(command)?;
        let events = BufReader::new(child.stdout.take().context("no standard output")?);
        let told = events.lines().try_for_each(|line| self.take(&serde_json::from_str(&line?)?));
        child.wait()?;
        told
    }

    fn take(&self, event: &Value) -> Result<()> {
        let mut seen = self.lock();
        if event["type"] == "ERROR" {
            // A new server's memory begins with its start, before which none was there to change anything.
            seen.version = oldest(&event["object"]).unwrap_or("0").to_owned();
            anyhow::bail!("the watch ended: {event}");
        }
        let node = &event["object"];
        seen.version = node["metadata"]["resourceVersion"].as_str().unwrap_or("0").to_owned();
        seen.compare(node, event["type"] == "DELETED")?;
        let known = seen.history.len();
        drop(seen);
        self.bell.send_replace(known);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("no panic under lock")
    }
}

impl Seen {
    /// Adds what differs from what the Node had before.
    fn compare(&mut self, node: &Value, deleted: bool) -> Result<()> {
        let name = node["metadata"]["name"].as_str().context("no name")?.to_owned();
        let now: BTreeMap<String, String> = match &node["metadata"]["annotations"] {
            _ if deleted => BTreeMap::new(),
            Value::Null => BTreeMap::new(),
            annotations => serde_json::from_value(annotations.clone())?,
        };
        let before = self.annotations.insert(name.clone(), now.clone()).unwrap_or_default();
        let resource_version = self.version.parse()?;
        for key in before.keys().chain(now.keys().filter(|key| !before.contains_key(*key))) {
            let value = now.get(key).cloned();
            if value.as_ref() != before.get(key) {
                // A Node that goes takes them along.
                let by = if deleted { Author::Test } else { author(node, key) };
                let at = Instant::now();
                let (node, key) = (name.clone(), key.clone());
                self.history.push(Change { at, node, key, value, by, resource_version });
            }
        }
        Ok(())
    }
}

/// The version from which on the server knows: `too old resource version: 7 (42)`.
fn oldest(status: &Value) -> Option<&str> {
    let message = status["message"].as_str()?;
    message.strip_suffix(')')?.rsplit_once('(').map(|(_, version)| version)
}

/// By whose field manager the annotation is, as the server noted it.
fn author(node: &Value, key: &str) -> Author {
    let managers = node["metadata"]["managedFields"].as_array().into_iter().flatten();
    let field = format!("f:{key}");
    let owns = |entry: &&Value| {
        entry["manager"] == AGENT
            && entry["fieldsV1"]["f:metadata"]["f:annotations"].get(&field).is_some()
    };
    managers.filter(owns).map(|_| Author::Client(AGENT.into())).next().unwrap_or(Author::Test)
}
