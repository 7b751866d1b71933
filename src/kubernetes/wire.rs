//! One request, one answer: with a deadline, bounded, and read for what it is.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::time::timeout;

use super::error::{KubeError, Refusal};

/// Of one answer, or of one line of a watch. A Node is at most 1.5 MB in the store, and JSON escapes some of
/// that; more than this is no Node.
const MAX_BYTES: usize = 6 * 1024 * 1024;
/// Of one request until its answer is there, all in all; of a watch until it begins.
pub(super) const DEADLINE: Duration = Duration::from_secs(15);

/// The answer's whole body.
///
/// # Errors
/// [`KubeError`].
pub(super) async fn fetch(
    client: &Client,
    what: &'static str,
    request: Request<Vec<u8>>,
) -> Result<Vec<u8>, KubeError> {
    let exchange = async { whole(what, send(client, what, request).await?.into_body()).await };
    timeout(DEADLINE, exchange).await.unwrap_or_else(|_elapsed| Err(timed_out(what)))
}

/// The lines of the answer, as they come.
///
/// # Errors
/// [`KubeError`].
pub(super) async fn stream(
    client: &Client,
    what: &'static str,
    request: Request<Vec<u8>>,
) -> Result<Lines, KubeError> {
    let begun = timeout(DEADLINE, send(client, what, request)).await;
    let response = begun.unwrap_or_else(|_elapsed| Err(timed_out(what)))?;
    Ok(Lines { what, body: response.into_body(), buffer: Vec::new(), searched: 0 })
}

pub(super) fn timed_out(what: &'static str) -> KubeError {
    KubeError::TimedOut { what, after: DEADLINE }
}

async fn send(
    client: &Client,
    what: &'static str,
    request: Request<Vec<u8>>,
) -> Result<Response<Body>, KubeError> {
    let sent = client.send(request.map(Body::from)).await;
    let response = sent.map_err(|error| KubeError::transport(what, error))?;
    if response.status().is_success() {
        return Ok(response);
    }
    let (head, body) = response.into_parts();
    // An answer that breaks off is a refusal all the same.
    let body = whole(what, body).await.unwrap_or_default();
    let status = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let refusal = Refusal::new(head.status, &status, retry_after(&head.headers));
    Err(KubeError::Refused { what, refusal })
}

/// In seconds; the other form, a date, is as good as none: this host's clock may be wrong.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

async fn whole(what: &'static str, mut body: Body) -> Result<Vec<u8>, KubeError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| KubeError::broken(what, error))?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        if bytes.len() > MAX_BYTES {
            return Err(KubeError::TooLarge { what, limit: MAX_BYTES });
        }
    }
    Ok(bytes)
}

/// An answer that goes on, line by line.
pub(super) struct Lines {
    what: &'static str,
    body: Body,
    buffer: Vec<u8>,
    /// So far there is no newline in the buffer.
    searched: usize,
}

impl Lines {
    /// The next whole line; what breaks off in the middle of one is dropped. May be cancelled.
    ///
    /// # Errors
    /// The connection broke, or a line has no end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, KubeError> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            let what = self.what;
            if self.buffer.len() > MAX_BYTES {
                return Err(KubeError::TooLarge { what, limit: MAX_BYTES });
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.map_err(|error| KubeError::broken(what, error))?;
            self.buffer.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(at) = unsearched.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        // The line takes the buffer with it, so that a large one is not kept for long.
        let rest = self.buffer.split_off(self.searched + at + 1);
        self.searched = 0;
        Some(std::mem::replace(&mut self.buffer, rest))
    }
}
