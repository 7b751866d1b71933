use std::time::Duration;

use kube::runtime::watcher;
use thiserror::Error;

/// Why the API server did not do what it was asked.
#[derive(Debug, Error)]
pub enum KubeError {
    #[error("cannot use the kubeconfig {path}")]
    Kubeconfig { path: String, source: kube::config::KubeconfigError },
    #[error("the API server address is no URL")]
    Server { source: http::uri::InvalidUri },
    #[error("cannot set up a client for the API server")]
    Client { source: kube::Error },
    #[error("{what}: no answer within {}", humantime::format_duration(*after))]
    TimedOut { what: &'static str, after: Duration },
    #[error("{what}: {code} {reason}: {message}")]
    Refused {
        what: &'static str,
        code: u16,
        reason: String,
        message: String,
        retry_after: Option<Duration>,
    },
    #[error("{what}")]
    Transport { what: &'static str, source: kube::Error },
    #[error("{what}")]
    Watch { what: &'static str, source: watcher::Error },
}

/// What may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The same again, later; not before this time where the server named one.
    Later(Option<Duration>),
    /// Read the credentials anew first: kubelet may have replaced them.
    Reconnect,
    /// The server understood and will not have it: what is written must change, or a person must act.
    Refused,
}

impl KubeError {
    pub(super) fn of(what: &'static str, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::refused(what, *status),
            source => Self::Transport { what, source },
        }
    }

    pub(super) fn of_watch(what: &'static str, error: watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(source)
            | watcher::Error::WatchStartFailed(source)
            | watcher::Error::WatchFailed(source) => Self::of(what, source),
            watcher::Error::WatchError(status) => Self::refused(what, *status),
            source @ watcher::Error::NoResourceVersion => Self::Watch { what, source },
        }
    }

    fn refused(what: &'static str, status: kube::core::Status) -> Self {
        let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        let retry_after = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
        Self::Refused {
            what,
            code: status.code,
            reason: status.reason,
            message: status.message,
            retry_after,
        }
    }

    /// Exhaustive: a new kind of error must say how it is retried.
    pub fn retry(&self) -> Retry {
        match self {
            // 410: the client goes on asking for a version that is gone; a new one lists again.
            Self::Refused { code: 401 | 410, .. } => Retry::Reconnect,
            Self::Refused { code: 403 | 404 | 409 | 413 | 422, .. } => Retry::Refused,
            Self::Refused { retry_after, .. } => Retry::Later(*retry_after),
            Self::Transport { .. } | Self::TimedOut { .. } | Self::Watch { .. } => Retry::Reconnect,
            Self::Kubeconfig { .. } | Self::Server { .. } | Self::Client { .. } => Retry::Reconnect,
        }
    }

    /// The Node's annotations are full, or a policy does not like what we wrote.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::Refused { code: 413 | 422, .. })
    }
}
