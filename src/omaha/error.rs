//! What can go wrong with the update server, and whether to try again.

use std::time::Duration;

use thiserror::Error;

use super::identity::{IdentityError, Server};
use super::offer::OfferError;
use super::xml::XmlError;

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same request may succeed later; not before `after`, where the server asked for it.
    Later {
        /// The server's `Retry-After`.
        after: Option<Duration>,
    },
    /// The same request would fail the same way.
    Never,
}

/// Why a request brought no usable answer.
#[derive(Debug, Error)]
pub enum Error {
    /// The program has not chosen its cryptography yet.
    #[error("preparing to ask update servers: no TLS provider is installed")]
    NoTls,
    /// Neither the system nor the environment has a usable CA certificate.
    #[error("preparing to ask update servers: no CA certificate could be read")]
    NoTrust,
    /// The client would take it for none and go straight.
    #[error(
        "preparing to ask update servers: the proxy in {variable} is no http:// or https:// URL"
    )]
    Proxy {
        /// Where it is named.
        variable: &'static str,
    },
    /// The HTTP client could not be made: the updater's name cannot be sent, for instance.
    #[error("preparing to ask update servers")]
    Setup(#[source] reqwest::Error),
    /// The request could not be written.
    #[error("writing the request to {server}")]
    Render {
        /// Whom we wanted to ask.
        server: Server,
        /// The writer's word.
        source: std::io::Error,
    },
    /// A value holds a control character, for instance.
    #[error(
        "the request to {server} cannot be written: {what} holds a character that XML cannot carry"
    )]
    NotXml {
        /// Whom we wanted to ask.
        server: Server,
        /// Which value.
        what: &'static str,
    },
    /// The server takes 64 KiB at most.
    #[error("the request to {server} would be {size} bytes long")]
    RequestTooLarge {
        /// Whom we wanted to ask.
        server: Server,
        /// How long it would be.
        size: usize,
    },
    /// The whole exchange, redirects and body included, has one deadline.
    #[error("asking {server}: no complete answer within {after:?}")]
    TimedOut {
        /// Whom we asked.
        server: Server,
        /// The deadline.
        after: Duration,
    },
    /// The server could not be reached, or broke off.
    #[error("asking {server}")]
    Http {
        /// Whom we asked.
        server: Server,
        /// The client's word, without the address.
        source: reqwest::Error,
    },
    /// The server sent us somewhere that we do not go.
    #[error("asking {server}: its redirect is not followed")]
    Redirect {
        /// Whom we asked.
        server: Server,
        /// Why not.
        source: RedirectRefused,
    },
    /// Any HTTP status but 200.
    #[error("asking {server}: HTTP status {status}")]
    Status {
        /// Whom we asked.
        server: Server,
        /// The status.
        status: u16,
        /// The server's `Retry-After`, at most one hour.
        retry_after: Option<Duration>,
    },
    /// The answer is longer than 1 MiB.
    #[error("asking {server}: the answer is longer than {limit} bytes")]
    AnswerTooLarge {
        /// Whom we asked.
        server: Server,
        /// The limit.
        limit: usize,
    },
    /// The answer is no Omaha answer: a sign-in page, or nothing at all.
    #[error("asking {server}: the answer is not one of an update server")]
    Malformed {
        /// Whom we asked.
        server: Server,
        /// What is wrong with it.
        source: XmlError,
    },
    /// The answer speaks of other apps only.
    #[error("asking {server}: the answer does not speak of our app")]
    AppMissing {
        /// Whom we asked.
        server: Server,
    },
    /// The answer to an update check holds none.
    #[error("asking {server}: the answer holds no update check")]
    UpdateCheckMissing {
        /// Whom we asked.
        server: Server,
    },
    /// An update is offered, but not one that we can take.
    #[error("asking {server}: the offered update cannot be used")]
    Offer {
        /// Whom we asked.
        server: Server,
        /// What is wrong with it.
        source: OfferError,
    },
    /// A probe was answered, but the server does not know the app.
    #[error("asking {server}: it answers {status} for our app")]
    AppRefused {
        /// Whom we asked.
        server: Server,
        /// The app status.
        status: String,
    },
}

/// Why a redirect is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RedirectRefused {
    /// Followed, the POST would become a GET.
    #[error("HTTP status {0} does not keep the method")]
    MethodLost(u16),
    /// The target is not https.
    #[error("it does not lead to https")]
    NotHttps,
    /// More than 5 in a row.
    #[error("there are too many in a row")]
    TooMany,
}

/// Why an event is not delivered.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The server answered, but for this app with another status than `ok`.
    #[error("reporting to {server}: it did not take the event: {status}")]
    NotTaken {
        /// Whom we told.
        server: Server,
        /// The app status.
        status: String,
    },
    /// There was no usable answer.
    #[error("reporting an event")]
    Request(#[from] Error),
    /// The event cannot be told: its server or its versions are not usable.
    #[error("reporting an event")]
    Identity(#[from] IdentityError),
}

impl Error {
    /// Whether, and when, to try again.
    pub fn retry(&self) -> Retry {
        let later = Retry::Later { after: None };
        match self {
            Error::NoTls | Error::NoTrust | Error::Setup(_) | Error::Proxy { .. } => Retry::Never,
            Error::Render { .. } | Error::NotXml { .. } | Error::RequestTooLarge { .. } => {
                Retry::Never
            }
            Error::TimedOut { .. } | Error::Http { .. } | Error::Redirect { .. } => later,
            Error::Status { status: 408 | 425 | 429 | 500.., retry_after, .. } => {
                Retry::Later { after: *retry_after }
            }
            Error::Status { .. } => Retry::Never,
            // A sign-in page or a broken proxy goes away again.
            Error::AnswerTooLarge { .. } | Error::Malformed { .. } => later,
            Error::AppMissing { .. } | Error::UpdateCheckMissing { .. } => later,
            Error::Offer { .. } | Error::AppRefused { .. } => Retry::Never,
        }
    }
}

impl ReportError {
    /// There are no words for this event, at no server and at no time.
    pub fn is_hopeless(&self) -> bool {
        match self {
            ReportError::Identity(_) => true,
            ReportError::Request(error) => matches!(
                error,
                Error::Render { .. } | Error::NotXml { .. } | Error::RequestTooLarge { .. }
            ),
            ReportError::NotTaken { .. } => false,
        }
    }

    /// Whether, and when, to try again. An event that was not taken stays owed.
    pub fn retry(&self) -> Retry {
        match self {
            ReportError::NotTaken { .. } => Retry::Later { after: None },
            ReportError::Request(error) => error.retry(),
            ReportError::Identity(_) => Retry::Never,
        }
    }
}
