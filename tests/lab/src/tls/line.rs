//! One accepted connection that can be reset, or go silent without closing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Controls one connection from outside its task.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    muted: AtomicBool,
    reset: AtomicBool,
    wake: Notify,
}

impl Switch {
    /// From now on nothing is sent and everything received is swallowed; the socket stays open.
    pub(crate) fn mute(&self) {
        self.muted.store(true, Ordering::SeqCst);
    }

    /// Ends the connection with a TCP reset.
    pub(crate) fn reset(&self) {
        self.reset.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }

    /// Resolves when the connection is to be reset. Only the connection's own task waits here.
    pub(crate) async fn on_reset(&self) {
        while !self.reset.load(Ordering::SeqCst) {
            self.wake.notified().await;
        }
    }

    fn is_muted(&self) -> bool {
        self.muted.load(Ordering::SeqCst)
    }
}

/// The TCP stream below TLS.
#[derive(Debug)]
pub(crate) struct Line {
    tcp: TcpStream,
    switch: Arc<Switch>,
}

impl Line {
    pub(crate) fn new(tcp: TcpStream, switch: Arc<Switch>) -> Self {
        Self { tcp, switch }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.switch.reset.load(Ordering::SeqCst) {
            // The peer may be gone already; then there is nothing left to reset.
            let _ = self.tcp.set_zero_linger();
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let filled = buf.filled().len();
            ready!(Pin::new(&mut self.tcp).poll_read(cx, buf))?;
            let end_of_stream = buf.filled().len() == filled;
            if end_of_stream || !self.switch.is_muted() {
                return Poll::Ready(Ok(()));
            }
            buf.set_filled(filled);
        }
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.switch.is_muted() {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    /// A muted connection never says goodbye.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.switch.is_muted() {
            return Poll::Pending;
        }
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
