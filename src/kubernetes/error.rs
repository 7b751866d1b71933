use std::error::Error as StdError;
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use thiserror::Error;

use super::AccessError;
use crate::contract::Message;

/// Longest text of the server's that is repeated.
const MAX_TEXT: usize = 400;
/// Longest wait that a server may ask for: what it says may be nonsense.
const RETRY_AFTER_LIMIT: Duration = Duration::from_secs(300);

/// A cause of a library's.
type Cause = Box<dyn StdError + Send + Sync>;

/// Why the API server did not do what it was asked.
#[derive(Debug, Error)]
pub enum KubeError {
    #[error("cannot use the kubeconfig {path}")]
    Access { path: String, source: AccessError },
    #[error("cannot set up a client for the API server")]
    Client { source: kube::Error },
    #[error("{what}")]
    Request { what: &'static str, source: kube::core::request::Error },
    #[error("{what}: no answer within {}", humantime::format_duration(*after))]
    TimedOut { what: &'static str, after: Duration },
    #[error("{what}: {refusal}")]
    Refused { what: &'static str, refusal: Refusal },
    #[error("{what}")]
    Transport { what: &'static str, source: Cause },
    #[error("{what}: the answer broke off")]
    Broken { what: &'static str, source: Cause },
    #[error("{what}: the answer is larger than {limit} bytes")]
    TooLarge { what: &'static str, limit: usize },
    #[error("{what}: the answer is none of an API server's")]
    NoAnswer { what: &'static str, source: serde_json::Error },
}

/// An answer that is not what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{code} {reason}{colon}{message}", colon = if message.is_empty() { "" } else { ": " })]
pub struct Refusal {
    pub code: u16,
    pub reason: String,
    /// The API server's own; empty where something else answered: that may be a whole page.
    pub message: String,
    pub retry_after: Option<Duration>,
    about: About,
}

/// What the API server refused it for, where that makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    NoNode,
    OtherNode,
    Anything,
}

/// What may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The same again, later.
    Later,
    /// Read credentials and Node anew first: kubelet may have replaced them.
    Reconnect,
    /// The server understood and will not have it: what is written must change, or a person must act.
    Refused,
}

impl Refusal {
    /// `status`: the body, where it is JSON.
    pub(super) fn new(code: StatusCode, status: &Value, retry_after: Option<Duration>) -> Self {
        let is_status = status["kind"] == "Status";
        let text = |key: &str| {
            let text = status[key].as_str().filter(|_| is_status).unwrap_or_default();
            let line = Message::new(text);
            let end = line.as_str().floor_char_boundary(MAX_TEXT);
            line.as_str().get(..end).unwrap_or_default().to_owned()
        };
        let reason = Some(text("reason")).filter(|reason| !reason.is_empty());
        let asked = status["details"]["retryAfterSeconds"].as_u64().map(Duration::from_secs);
        let asked = retry_after.or(asked).filter(|asked| !asked.is_zero());
        Self {
            code: code.as_u16(),
            reason: reason
                .unwrap_or_else(|| code.canonical_reason().unwrap_or("unknown").to_owned()),
            message: text("message"),
            retry_after: asked.map(|asked| asked.min(RETRY_AFTER_LIMIT)),
            about: About::of(code, status),
        }
    }

    /// A `Status` that came as an event of a watch.
    pub(super) fn event(status: &Value) -> Self {
        let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        let code = code.and_then(|code| StatusCode::from_u16(code).ok());
        Self::new(code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), status, None)
    }
}

impl About {
    fn of(code: StatusCode, status: &Value) -> Self {
        let details = &status["details"];
        let causes = details["causes"].as_array();
        let uid = || causes.into_iter().flatten().any(|cause| cause["field"] == "metadata.uid");
        match code {
            // A wrong address or a proxy may answer 404 too.
            StatusCode::NOT_FOUND
                if status["reason"] == "NotFound" && details["kind"] == "nodes" =>
            {
                Self::NoNode
            }
            StatusCode::UNPROCESSABLE_ENTITY if uid() => Self::OtherNode,
            _ => Self::Anything,
        }
    }
}

impl KubeError {
    pub(super) fn transport(what: &'static str, error: kube::Error) -> Self {
        Self::Transport { what, source: cause(error) }
    }

    /// It is JSON with metadata, as a Node is, and something else.
    pub(super) fn other_object(what: &'static str) -> Self {
        Self::NoAnswer { what, source: serde::de::Error::custom("it is not of the Node") }
    }

    pub(super) fn broken(what: &'static str, error: kube::Error) -> Self {
        Self::Broken { what, source: cause(error) }
    }

    /// Exhaustive: a new kind of error must say how it is retried.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Refused { refusal, .. } => match refusal.code {
                401 => Retry::Reconnect,
                _ if self.is_other_node() => Retry::Reconnect,
                403 | 404 | 413 | 422 => Retry::Refused,
                _ => Retry::Later,
            },
            Self::Transport { .. } | Self::Broken { .. } | Self::TimedOut { .. } => {
                Retry::Reconnect
            }
            Self::TooLarge { .. } | Self::NoAnswer { .. } => Retry::Reconnect,
            Self::Access { .. } | Self::Client { .. } | Self::Request { .. } => Retry::Reconnect,
        }
    }

    /// How long the server asked to wait, whatever it refused.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { refusal, .. } => refusal.retry_after,
            _ => None,
        }
    }

    /// There is no Node of this name.
    pub(super) fn is_no_node(&self) -> bool {
        self.is_about(About::NoNode)
    }

    /// The Node of this name is another than the one that was to be written.
    fn is_other_node(&self) -> bool {
        self.is_about(About::OtherNode)
    }

    /// The other side is not whom we trust, or does not trust us.
    pub fn is_tls(&self) -> bool {
        comes_of_tls(self)
    }

    /// The Node's annotations are full, or a policy does not like what we wrote.
    pub fn is_too_large(&self) -> bool {
        !self.is_other_node()
            && matches!(self, Self::Refused { refusal, .. } if matches!(refusal.code, 413 | 422))
    }

    fn is_about(&self, about: About) -> bool {
        matches!(self, Self::Refused { refusal, .. } if refusal.about == about)
    }
}

/// Without kube's own wrapping, which says nothing.
fn cause(error: kube::Error) -> Cause {
    match error {
        kube::Error::Service(source) => source,
        other => Box::new(other),
    }
}

/// An `io::Error` does not count what it holds among its causes.
fn comes_of_tls(error: &(dyn StdError + 'static)) -> bool {
    let held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>()
        || held.is_some_and(|held| comes_of_tls(held))
        || error.source().is_some_and(comes_of_tls)
}
