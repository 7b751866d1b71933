//! The door to Nebraska: Omaha requests and answers.
//!
//! The server answers almost every mistake with `ok` and drops what it did not like. Its rules that
//! fail silently when broken, each with what makes breaking it impossible:
//!
//! | rule | kept by |
//! | --- | --- |
//! | `track` on every request, or the event meets no group | [`App`] carries it, every request is made for an [`App`] |
//! | `arch` is `amd64` or `aarch64`; anything else counts as amd64 | [`Arch`] has no other value |
//! | `machineid` is a stable UUID without braces, never the raw machine id | [`MachineId`] can only be derived |
//! | only five pairs of event type and result exist | [`Event`] has five variants; the numbers stand in one table |
//! | a completion without `previousversion` is dropped | [`Event::Complete`] holds a [`PreviousVersion`], never empty |
//! | a completion needs a ping and an update check beside it | rendering adds them, callers cannot choose |
//! | a probe must not register or consume anything | [`Client::probe`] has no way to add to its bare `<app>` |
//! | values must not break the XML, 64 KiB at most | rendering escapes, refuses what XML cannot carry, and measures |
//! | never the updater `CoreOSUpdateEngine-0.1.0.0` with source `scheduler` | no install source is ever rendered |
//! | an app status other than `ok` is no delivery, though HTTP says 200 | [`Client::report`] returns [`ReportError::NotTaken`] |
//! | our app may not be the first in the answer | the answer has no "first", only a look-up by app id |
//! | the image is fetched from `https` or `oci` only | [`Offer`] is made in one place, which checks |
//! | a redirected POST becomes a GET with 301, 302 and 303 | only 307 and 308 are followed, to https, at most 5 |
//! | the first check's cookie is the update's cookie | [`Check::First`] clears and stores; nothing else does |
//! | a cookie goes to the origin that set it only | [`CookieJar`] keeps the origin with it |

/// What a check was answered.
mod answer;
/// Asking, reporting, probing.
mod client;
/// The affinity cookie.
mod cookie;
/// What can go wrong, and whether to try again.
mod error;
/// The events that the server knows.
mod event;
/// One POST within its deadline.
mod http;
/// Who asks, and for which app.
mod identity;
/// The offered image.
mod offer;
/// Which proxy could not be used.
mod proxy;
/// The server's answer.
mod reply;
/// The request as XML.
mod request;
/// Whom we trust.
mod trust;
/// A bounded XML reader.
mod xml;

pub use answer::CheckAnswer;
pub use client::{Check, Client, Settings};
pub use cookie::CookieJar;
pub use error::{Error, RedirectRefused, ReportError, Retry};
pub use event::{Event, PreviousVersion};
pub use identity::{App, Arch, IdentityError, MachineId, Server};
pub use offer::{HashSource, Offer, OfferError};
pub use xml::XmlError;
