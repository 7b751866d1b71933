//! What a person can do about a dependency that cannot be used.

use crate::omaha;
use crate::trident::{self, Refusal};

pub(super) fn on_tridentd(error: &trident::Error) -> &'static str {
    match error {
        trident::Error::BadSocket { .. } | trident::Error::BadEndpoint { .. } => {
            "check TRIDENT_ACL_AGENT_TRIDENT_SOCKET"
        }
        trident::Error::Unreachable { source: Refusal::NotListening(_), .. } => {
            "check that tridentd.socket is active, TRIDENT_ACL_AGENT_TRIDENT_SOCKET, and that you are root"
        }
        trident::Error::Unreachable { source: Refusal::Busy(_), .. } => {
            "it is starting or at work: check again in a while"
        }
        trident::Error::TimedOut { .. } => {
            "it took the call and says nothing: check its journal, or restart it while no update runs"
        }
        trident::Error::Broken { .. } => {
            "what listens there does not speak gRPC: check TRIDENT_ACL_AGENT_TRIDENT_SOCKET"
        }
        error if error.is_unknown_call() => {
            "it is too old for this agent: update it, or check TRIDENT_ACL_AGENT_TRIDENT_SOCKET"
        }
        trident::Error::Status { .. }
        | trident::Error::NoAnswer { .. }
        | trident::Error::Failed(_) => "check its journal",
    }
}

pub(super) fn on_nebraska(error: &omaha::Error) -> &'static str {
    match error {
        omaha::Error::NoTls | omaha::Error::Setup(_) | omaha::Error::Render { .. } => {
            "this is the agent's own fault: report it"
        }
        omaha::Error::Proxy { .. } => "correct it, or unset it",
        omaha::Error::NoTrust => "install CA certificates, or check SSL_CERT_FILE and SSL_CERT_DIR",
        omaha::Error::NotXml { .. }
        | omaha::Error::RequestTooLarge { .. }
        | omaha::Error::AppRefused { .. } => {
            "check TRIDENT_ACL_AGENT_NEBRASKA_APP_ID and TRIDENT_ACL_AGENT_NEBRASKA_TRACK"
        }
        omaha::Error::TimedOut { .. } | omaha::Error::Http { .. } => {
            "check the host in TRIDENT_ACL_AGENT_NEBRASKA_ENDPOINT, the network, HTTPS_PROXY and NO_PROXY, \
             and the CA certificates (SSL_CERT_FILE)"
        }
        omaha::Error::Redirect { .. } => {
            "check TRIDENT_ACL_AGENT_NEBRASKA_ENDPOINT: set it to where the server really is"
        }
        omaha::Error::Status { status: 401 | 403 | 407, .. } => {
            "it, or a proxy before it, does not let this machine in: check TRIDENT_ACL_AGENT_NEBRASKA_ENDPOINT \
             and ask who runs it"
        }
        omaha::Error::Status { status: 408 | 425 | 429 | 500.., .. } => {
            "it is in trouble: check it, or try again later"
        }
        omaha::Error::Status { .. } => {
            "check the path in TRIDENT_ACL_AGENT_NEBRASKA_ENDPOINT, as a rule /v1/update"
        }
        omaha::Error::AnswerTooLarge { .. }
        | omaha::Error::Malformed { .. }
        | omaha::Error::AppMissing { .. }
        | omaha::Error::UpdateCheckMissing { .. }
        | omaha::Error::Offer { .. } => {
            "something else answers, such as a sign-in page: check TRIDENT_ACL_AGENT_NEBRASKA_ENDPOINT and proxies"
        }
    }
}
