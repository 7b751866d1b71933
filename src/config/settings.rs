/// Every setting's variable begins with this.
pub const PREFIX: &str = "TRIDENT_ACL_AGENT_";

/// One setting. `docs/configuration.md` is held to this table by a test.
#[derive(Debug)]
pub struct Setting {
    /// The variable's name after [`PREFIX`].
    pub name: &'static str,
    /// Empty: unset.
    pub default: &'static str,
    pub kind: Kind,
}

/// What form a value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Path,
    Bool,
    Duration,
    /// Logged as scheme, host and port.
    Url,
    OneOf(&'static [&'static str]),
}

const fn setting(name: &'static str, default: &'static str, kind: Kind) -> Setting {
    Setting { name, default, kind }
}

pub(super) const SHA384_SOURCE: &str = "COSI_SHA384_SOURCE";
pub(super) const ANNOTATION_PREFIX: &str = "KUBERNETES_ANNOTATION_PREFIX";
pub(super) const VERSION_PATH: &str = "CURRENT_VERSION_PATH";
pub(super) const VERSION_KEY: &str = "CURRENT_VERSION_KEY";
pub(super) const VERSION_FALLBACK: &str = "CURRENT_VERSION_FALLBACK";
pub(super) const API_SERVER: &str = "KUBERNETES_API_SERVER";
pub(super) const KUBECONFIG: &str = "KUBERNETES_KUBECONFIG";
pub(super) const NODE_NAME: &str = "KUBERNETES_NODE_NAME";
pub(super) const NODE_NAME_SOURCE: &str = "KUBERNETES_NODE_NAME_SOURCE";
pub(super) const KUBELET_CERT_PATH: &str = "KUBERNETES_KUBELET_CERT_PATH";
pub(super) const VALIDATE_NODE_UUID: &str = "KUBERNETES_VALIDATE_NODE_UUID";
pub(super) const TRIDENT_SOCKET: &str = "TRIDENT_SOCKET";
pub(super) const STATE_PATH: &str = "ORCHESTRATION_STATE_PATH";
pub(super) const COOKIE_ENABLED: &str = "ORCHESTRATION_COOKIE_ENABLED";
pub(super) const COOKIE_PATH: &str = "ORCHESTRATION_COOKIE_PATH";
pub(super) const STAGE_TIMEOUT: &str = "ORCHESTRATION_STAGE_TIMEOUT";
pub(super) const FINALIZE_TIMEOUT: &str = "ORCHESTRATION_FINALIZE_TIMEOUT";
pub(super) const HEARTBEAT_INTERVAL: &str = "ORCHESTRATION_HEARTBEAT_INTERVAL";
pub(super) const PUBLISH_MAX_WAIT: &str = "ORCHESTRATION_PUBLISH_MAX_WAIT";
pub(super) const NODE_GONE_MAX_WAIT: &str = "ORCHESTRATION_NODE_GONE_MAX_WAIT";
pub(super) const ALLOWED_SERVERS: &str = "ORCHESTRATION_ALLOWED_SERVERS";
pub(super) const PROBE_ENDPOINT: &str = "NEBRASKA_ENDPOINT";
pub(super) const PROBE_APP_ID: &str = "NEBRASKA_APP_ID";
pub(super) const PROBE_TRACK: &str = "NEBRASKA_TRACK";

/// Every setting there is.
pub const SETTINGS: &[Setting] = &[
    setting(SHA384_SOURCE, "labels", Kind::OneOf(&["labels", "hash"])),
    setting(ANNOTATION_PREFIX, "acl.microsoft.com", Kind::Text),
    setting(VERSION_PATH, "/etc/os-release", Kind::Path),
    setting(VERSION_KEY, "VERSION_ID", Kind::Text),
    setting(VERSION_FALLBACK, "always", Kind::Text),
    setting(API_SERVER, "", Kind::Url),
    setting(KUBECONFIG, "/var/lib/kubelet/kubeconfig", Kind::Path),
    setting(NODE_NAME, "", Kind::Text),
    setting(NODE_NAME_SOURCE, "hostname", Kind::OneOf(&["hostname", "kubelet-cert"])),
    setting(KUBELET_CERT_PATH, "/var/lib/kubelet/pki/kubelet-client-current.pem", Kind::Path),
    setting(VALIDATE_NODE_UUID, "false", Kind::Bool),
    setting(TRIDENT_SOCKET, "unix:///run/trident/trident.sock", Kind::Text),
    setting(STATE_PATH, "/var/lib/trident-acl-agent/state.json", Kind::Path),
    setting(COOKIE_ENABLED, "false", Kind::Bool),
    setting(COOKIE_PATH, "/var/lib/trident-acl-agent/nebraska-cookie", Kind::Path),
    setting(STAGE_TIMEOUT, "20m", Kind::Duration),
    setting(FINALIZE_TIMEOUT, "10m", Kind::Duration),
    setting(HEARTBEAT_INTERVAL, "60s", Kind::Duration),
    setting(PUBLISH_MAX_WAIT, "1m", Kind::Duration),
    setting(NODE_GONE_MAX_WAIT, "", Kind::Duration),
    setting(ALLOWED_SERVERS, "", Kind::Text),
    setting(PROBE_ENDPOINT, "https://nebraska.example.invalid/v1/update", Kind::Url),
    setting(PROBE_APP_ID, "00000000-0000-0000-0000-000000000000", Kind::Text),
    setting(PROBE_TRACK, "unspecified", Kind::Text),
];
