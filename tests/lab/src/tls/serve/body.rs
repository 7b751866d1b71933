//! Response bodies: whole, counted, and spoiled.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::Response;
use hyper::body::{Frame, SizeHint};
use hyper::header::CONTENT_LENGTH;

use super::Shared;

/// A body that can break off.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// How a body ends before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The connection breaks.
    Break,
    /// Nothing more comes.
    Stall,
}

/// A body that is there as a whole.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// The error that makes hyper break the connection or reset the stream. What was sent before is
/// flushed first, because the body is pending for one turn.
pub(crate) async fn broken_off() -> io::Error {
    tokio::task::yield_now().await;
    io::Error::new(io::ErrorKind::ConnectionAborted, "cut by a fault")
}

/// The first `limit` bytes of a body.
pub(crate) fn cut_after(body: Body, limit: usize, cut: Cut) -> Body {
    let chunks = stream::unfold(Some((body.into_data_stream(), limit)), move |state| async move {
        let (mut chunks, left) = state?;
        if left == 0 {
            return match cut {
                Cut::Break => Some((Err(broken_off().await), None)),
                Cut::Stall => std::future::pending().await,
            };
        }
        let chunk: Result<Bytes, io::Error> = chunks.next().await?;
        let chunk = chunk.map(|bytes| bytes.slice(..bytes.len().min(left)));
        let taken = chunk.as_ref().map_or(0, Bytes::len);
        Some((chunk.map(Frame::data), Some((chunks, left - taken))))
    });
    BodyExt::boxed_unsync(StreamBody::new(chunks))
}

/// The response with so many spaces before its body, and no length announced.
pub(crate) fn padded(response: Response<Body>, padding: usize) -> Response<Body> {
    const CHUNK: usize = 64 * 1024;
    let (mut head, body) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    let spaces = Bytes::from(vec![b' '; CHUNK]);
    let sizes = (0..padding).step_by(CHUNK).map(move |at| CHUNK.min(padding - at));
    let spaces = stream::iter(sizes.map(move |n| Ok(Frame::data(spaces.slice(..n)))));
    let rest = body.into_data_stream().map(|chunk| chunk.map(Frame::data));
    Response::from_parts(head, BodyExt::boxed_unsync(StreamBody::new(spaces.chain(rest))))
}

/// Counts a body's bytes in the request's record and notes its end.
pub(crate) struct Counted {
    inner: Body,
    shared: Arc<Shared>,
    record: usize,
}

impl Counted {
    pub(crate) fn boxed(inner: Body, shared: Arc<Shared>, record: usize) -> Body {
        BodyExt::boxed_unsync(Self { inner, shared, record })
    }
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            let sent = frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
            self.shared.with_record(self.record, |entry| entry.bytes += sent);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.shared.with_record(self.record, |entry| entry.ended = true);
    }
}
