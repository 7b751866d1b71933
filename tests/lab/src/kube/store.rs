//! The Nodes, their event log, and the history of their annotations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use super::{contract, object};

/// Who changed an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Author {
    /// The test, in the role of an orchestrator.
    Test,
    /// A client of the API, by its user name.
    Client(String),
}

/// One change of one annotation.
#[derive(Clone, Debug)]
pub struct Change {
    /// When.
    pub at: Instant,
    /// On which Node.
    pub node: String,
    /// The annotation's key.
    pub key: String,
    /// The new value, `None` when it was removed.
    pub value: Option<String>,
    /// By whom.
    pub by: Author,
    /// The Node's resourceVersion after the change.
    pub resource_version: u64,
}

impl Change {
    /// The value as JSON; one that is no JSON is a string, a removed one is null.
    pub fn json(&self) -> Value {
        let Some(text) = &self.value else {
            return Value::Null;
        };
        serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl EventKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One entry of the event log.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) version: u64,
    pub(super) kind: EventKind,
    pub(super) object: Arc<Value>,
}

impl Event {
    fn concerns(&self, name: Option<&str>) -> bool {
        name.is_none_or(|name| self.object["metadata"]["name"] == name)
    }
}

/// All of it, under one lock.
#[derive(Debug)]
pub(super) struct Store {
    version: u64,
    /// Watches from before this version are answered 410.
    oldest: u64,
    nodes: BTreeMap<String, Arc<Value>>,
    log: Vec<Event>,
    pub(super) history: Vec<Change>,
    /// What the agent wrote against the contract.
    pub(super) breaches: Vec<String>,
}

impl Store {
    pub(super) fn new() -> Self {
        Self {
            version: 1000,
            oldest: 0,
            nodes: BTreeMap::new(),
            log: vec![],
            history: vec![],
            breaches: vec![],
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn oldest(&self) -> u64 {
        self.oldest
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Value>> {
        self.nodes.get(name).cloned()
    }

    /// The Nodes in order of name, or only one.
    pub(super) fn list(&self, name: Option<&str>) -> Vec<Arc<Value>> {
        let wanted = |node: &&String| name.is_none_or(|name| name == node.as_str());
        self.nodes.iter().filter(|(node, _)| wanted(node)).map(|(_, v)| v.clone()).collect()
    }

    /// Events after `version`, oldest first.
    pub(super) fn since(&self, version: u64, name: Option<&str>) -> Vec<Event> {
        let start = self.log.partition_point(|event| event.version <= version);
        self.log[start..].iter().filter(|event| event.concerns(name)).cloned().collect()
    }

    /// Forgets what a new watch could resume from, as etcd's compaction does.
    pub(super) fn compact(&mut self) {
        self.version += 1;
        self.oldest = self.version;
    }

    pub(super) fn add(&mut self, name: &str) {
        assert!(!self.nodes.contains_key(name), "Node {name} is there already");
        self.store(EventKind::Added, object::node(name));
    }

    pub(super) fn remove(&mut self, name: &str) {
        let last = self.nodes.remove(name).unwrap_or_else(|| panic!("no Node {name}"));
        self.version += 1;
        let mut object = Value::clone(&last);
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.append(EventKind::Deleted, Arc::new(object));
    }

    /// Replaces a Node; a change that changes nothing is none, as in the real server.
    pub(super) fn replace(&mut self, new: Value, by: &Author) -> Arc<Value> {
        let name = name_of(&new);
        let old = self.get(&name).unwrap_or_else(|| panic!("no Node {name}"));
        if *old == new {
            return old;
        }
        let stored = self.store(EventKind::Modified, new);
        self.remember(&name, &old, &stored, by);
        stored
    }

    fn store(&mut self, kind: EventKind, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let object = Arc::new(object);
        self.nodes.insert(name_of(&object), object.clone());
        self.append(kind, object.clone());
        object
    }

    fn append(&mut self, kind: EventKind, object: Arc<Value>) {
        self.log.push(Event { version: self.version, kind, object });
    }

    fn remember(&mut self, name: &str, old: &Value, new: &Value, by: &Author) {
        let annotations = |object: &Value| object["metadata"]["annotations"].clone();
        let (old, new) = (annotations(old), annotations(new));
        let keys: BTreeSet<String> = keys(&old).chain(keys(&new)).collect();
        for key in keys.into_iter().filter(|key| old.get(key) != new.get(key)) {
            let change = Change {
                at: Instant::now(),
                node: name.to_owned(),
                value: new.get(&key).and_then(Value::as_str).map(str::to_owned),
                key,
                by: by.clone(),
                resource_version: self.version,
            };
            self.breaches.extend(contract::breach(&self.history, &change));
            self.history.push(change);
        }
    }
}

/// Sets or removes one annotation in an object.
pub(super) fn set_annotation(object: &mut Value, key: &str, value: Option<&str>) {
    let annotations = &mut object["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    match value {
        Some(text) => annotations[key] = text.into(),
        None => drop(annotations.as_object_mut().and_then(|map| map.remove(key))),
    }
}

pub(super) fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn keys(map: &Value) -> impl Iterator<Item = String> {
    map.as_object().into_iter().flat_map(|map| map.keys().cloned())
}
