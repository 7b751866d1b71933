//! Files of https servers: whole, or by ranges where the server offers them.

use std::io::{self, Read};
use std::rc::Rc;
use std::time::Duration;

use futures_util::TryStreamExt;
use reqwest::header::{CONTENT_RANGE, ETAG, HeaderValue, IF_RANGE, RANGE};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use tokio::runtime::Runtime;

use super::body::Body;
use super::error::FetchError;
use super::remote::Remote;
use super::{proxy, trust};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(15);
/// How long nothing may come: a large image takes as long as it takes.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);
const REDIRECTS: usize = 5;

/// Who asks.
const USER_AGENT: &str = concat!("trident-slotctl/", env!("CARGO_PKG_VERSION"));

/// A client for all requests of one staging.
#[derive(Debug)]
pub(crate) struct Web {
    pub(crate) runtime: Rc<Runtime>,
    client: Client,
}

impl Web {
    /// Takes proxies and CA certificates from the environment and the system, as of now.
    pub(crate) fn new() -> Result<Self, FetchError> {
        // Another one's choice is as good: it is the same one, or a program that embeds this made it.
        drop(rustls::crypto::ring::default_provider().install_default());
        if let Some(variable) = proxy::malformed_proxy() {
            return Err(FetchError::Proxy(variable));
        }
        let tls = trust::client_config().ok_or(FetchError::NoTrust)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(USER_AGENT)
            .https_only(true)
            .redirect(Policy::limited(REDIRECTS))
            // The address that we come from may hold a secret.
            .referer(false)
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .build()
            .map_err(failed)?;
        Ok(Self { runtime: Rc::new(runtime.map_err(FetchError::Setup)?), client })
    }

    /// Asks for a file's first byte: a server that gives just that gives any part.
    pub(crate) fn file(&self, url: &str) -> Result<WebFile, FetchError> {
        let url = Url::parse(url).map_err(|_malformed| FetchError::Address)?;
        let request = self.client.get(url.clone()).header(RANGE, "bytes=0-0");
        let answer = send(&self.runtime, request)?;
        let part = range_of(&answer);
        let (size, has_parts) = match (answer.status(), part) {
            (StatusCode::PARTIAL_CONTENT, Some(Part { from: 0, length: 1, size })) => (size, true),
            (StatusCode::OK, _) => (answer.content_length(), false),
            // There is no first byte.
            (StatusCode::RANGE_NOT_SATISFIABLE, _) => (Some(0), false),
            (StatusCode::PARTIAL_CONTENT, _) => return Err(FetchError::OtherPart),
            (status, _) => return Err(FetchError::Status(status.as_u16())),
        };
        let tag = answer.headers().get(ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/"));
        let (tag, has_parts) = (tag.cloned(), has_parts && size.is_some());
        let (runtime, client) = (Rc::clone(&self.runtime), self.client.clone());
        Ok(WebFile { runtime, client, url, size, has_parts, tag })
    }
}

#[derive(Debug)]
pub(crate) struct WebFile {
    runtime: Rc<Runtime>,
    client: Client,
    url: Url,
    size: Option<u64>,
    has_parts: bool,
    /// Of the content that was seen first.
    tag: Option<HeaderValue>,
}

impl WebFile {
    fn body(&self, answer: Response) -> Box<dyn Read> {
        let chunks = answer.bytes_stream().map_err(|it| io::Error::other(it.without_url()));
        Box::new(Body::new(&self.runtime, chunks))
    }
}

impl Remote for WebFile {
    fn size(&self) -> Option<u64> {
        self.size
    }

    fn has_parts(&self) -> Result<bool, FetchError> {
        Ok(self.has_parts)
    }

    fn whole(&self) -> Result<Box<dyn Read>, FetchError> {
        let answer = send(&self.runtime, self.client.get(self.url.clone()))?;
        match answer.status() {
            StatusCode::OK => Ok(self.body(answer)),
            status => Err(FetchError::Status(status.as_u16())),
        }
    }

    fn part(&self, from: u64, length: u64) -> Result<Box<dyn Read>, FetchError> {
        let end = from.saturating_add(length.max(1) - 1);
        let mut request =
            self.client.get(self.url.clone()).header(RANGE, format!("bytes={from}-{end}"));
        if let Some(tag) = &self.tag {
            request = request.header(IF_RANGE, tag);
        }
        let answer = send(&self.runtime, request)?;
        let asked = Some(Part { from, length, size: self.size });
        match answer.status() {
            StatusCode::PARTIAL_CONTENT if range_of(&answer) == asked => Ok(self.body(answer)),
            StatusCode::PARTIAL_CONTENT | StatusCode::OK => Err(FetchError::OtherPart),
            status => Err(FetchError::Status(status.as_u16())),
        }
    }
}

fn send(runtime: &Runtime, request: RequestBuilder) -> Result<Response, FetchError> {
    // Its timers are made when it is sent, and need the runtime then.
    runtime.block_on(async { request.send().await }).map_err(failed)
}

/// The address may hold a secret.
fn failed(problem: reqwest::Error) -> FetchError {
    FetchError::Http(problem.without_url())
}

/// What an answer has of the whole.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    from: u64,
    length: u64,
    size: Option<u64>,
}

fn range_of(answer: &Response) -> Option<Part> {
    read_range(answer.headers().get(CONTENT_RANGE)?.to_str().ok()?)
}

/// `bytes 0-99/200`, or `*` for a size that nobody knows.
fn read_range(text: &str) -> Option<Part> {
    let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (from, last) = range.split_once('-')?;
    let (from, last): (u64, u64) = (from.parse().ok()?, last.parse().ok()?);
    let size = if size == "*" { None } else { Some(size.parse().ok()?) };
    let length = last.checked_sub(from)?.checked_add(1)?;
    Some(Part { from, length, size }).filter(|_| size.is_none_or(|size| last < size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_range_is_read_or_none() {
        let part = |from, length, size| Some(Part { from, length, size });
        for (text, expected) in [
            ("bytes 0-0/10", part(0, 1, Some(10))),
            ("bytes 5-9/10", part(5, 5, Some(10))),
            ("bytes 5-9/*", part(5, 5, None)),
            ("bytes 5-10/10", None),
            ("bytes 9-5/10", None),
            ("bytes 0-18446744073709551615/*", None),
            ("bytes -5/10", None),
            ("bytes */10", None),
            ("items 0-0/10", None),
            ("", None),
        ] {
            assert_eq!(read_range(text), expected, "{text:?}");
        }
    }
}
