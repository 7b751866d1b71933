use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::PartialObjectMeta;
use serde::Deserialize;
use tracing::warn;

/// What is kept of a Node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node {
    pub uid: String,
    pub resource_version: String,
    /// All of them: only ours are looked at.
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

/// What is asked of the API server: metadata, or a Node with its machine's identity.
pub(super) trait Observed:
    Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static
{
    fn system_uuid(&self) -> Option<&str>;
}

/// The metadata of a Node.
pub(super) type Metadata = PartialObjectMeta<k8s_openapi::api::core::v1::Node>;

impl Observed for Metadata {
    fn system_uuid(&self) -> Option<&str> {
        None
    }
}

/// A Node, of which only the identity is parsed.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Identified {
    metadata: ObjectMeta,
    #[serde(default)]
    status: IdentifiedStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct IdentifiedStatus {
    #[serde(default)]
    node_info: NodeInfo,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct NodeInfo {
    #[serde(default, rename = "systemUUID")]
    system_uuid: String,
}

impl Observed for Identified {
    fn system_uuid(&self) -> Option<&str> {
        Some(self.status.node_info.system_uuid.trim()).filter(|uuid| !uuid.is_empty())
    }
}

impl Resource for Identified {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Node".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "nodes".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The identity that a Node must have; `None`: not checked.
#[derive(Debug, Clone)]
pub(super) struct Expected(pub(super) Option<Machine>);

/// This machine's own UUID, where it can be read.
#[derive(Debug, Clone)]
pub(super) struct Machine(pub(super) Option<String>);

impl Expected {
    /// `Gone` where the Node describes another machine.
    pub(super) fn see(&self, node: &impl Observed) -> Seen {
        let Some(Machine(machine)) = &self.0 else {
            return Seen::Node(kept(node.meta()));
        };
        match (machine, node.system_uuid()) {
            (Some(ours), Some(theirs)) if !ours.eq_ignore_ascii_case(theirs) => {
                warn!(node_uuid = theirs, machine_uuid = %ours, "the Node of this name is another machine");
                Seen::Gone
            }
            (Some(_), Some(_)) => Seen::Node(kept(node.meta())),
            (ours, theirs) => {
                let (machine_known, node_known) = (ours.is_some(), theirs.is_some());
                warn!(machine_known, node_known, "cannot check the Node's identity, ignoring");
                Seen::Node(kept(node.meta()))
            }
        }
    }
}

fn kept(meta: &ObjectMeta) -> Node {
    Node {
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        annotations: meta.annotations.clone().unwrap_or_default(),
    }
}
