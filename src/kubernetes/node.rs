//! The Node, as far as it is looked at.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::contract::Keys;

/// What is kept of a Node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node {
    pub uid: String,
    pub resource_version: String,
    /// Ours alone: others may be many, large and busy.
    pub annotations: BTreeMap<String, String>,
}

/// What the watch last saw.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Seen {
    /// Nothing yet.
    #[default]
    Unknown,
    Node(Node),
    /// 404, or a Node that describes another machine.
    Gone,
}

impl Seen {
    /// Whether a reader of our annotations would find nothing new: kubelet's heartbeats and other people's
    /// annotations change a Node all the time.
    pub fn says_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Node(a), Self::Node(b)) => a.uid == b.uid && a.annotations == b.annotations,
            (a, b) => a == b,
        }
    }
}

/// A Node on the wire, whole or its metadata.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Object {
    pub(super) metadata: Metadata,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    uid: String,
    pub(super) resource_version: String,
    annotations: Option<Pairs>,
}

/// All annotations, as they come: they are gone through once.
#[derive(Debug, Default)]
struct Pairs(Vec<(String, String)>);

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    node_info: Option<NodeInfo>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeInfo {
    #[serde(rename = "systemUUID")]
    system_uuid: Option<String>,
}

impl Object {
    pub(super) fn system_uuid(&self) -> Option<&str> {
        let info = self.status.as_ref()?.node_info.as_ref()?;
        info.system_uuid.as_deref().map(str::trim).filter(|uuid| !uuid.is_empty())
    }

    pub(super) fn keep(self, keys: &Keys) -> Node {
        let Metadata { uid, resource_version, annotations, .. } = self.metadata;
        let ours = [&keys.request, &keys.status, &keys.commit_status];
        let mut node = Node { uid, resource_version, annotations: BTreeMap::new() };
        for (key, value) in annotations.unwrap_or_default().0 {
            if ours.contains(&&key) {
                node.annotations.insert(key, value);
            }
        }
        node
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self::default())
    }
}

impl<'de> Visitor<'de> for Pairs {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(pair) = map.next_entry()? {
            self.0.push(pair);
        }
        Ok(self)
    }
}

/// A collection with a place to watch on from.
#[derive(Debug, Deserialize)]
pub(super) struct List {
    #[serde(default)]
    pub(super) kind: String,
    pub(super) metadata: Metadata,
    pub(super) items: Option<Vec<Object>>,
}

/// One line of a watch.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", content = "object", rename_all = "UPPERCASE")]
pub(super) enum Event {
    Added(Object),
    Modified(Object),
    Deleted(Object),
    Bookmark(Object),
    Error(Value),
}
