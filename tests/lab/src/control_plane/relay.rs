//! Passes bytes from a listener anywhere to the API server in its own network, as a load balancer does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::Servers;

/// Bytes that went through, TLS and all.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) asked: AtomicU64,
    pub(super) answered: AtomicU64,
}

/// Stops, with every connection through it, when it is dropped.
#[derive(Debug)]
pub(super) struct Relay(AbortHandle);

impl Relay {
    pub(super) fn start(listener: std::net::TcpListener, servers: Arc<Servers>) -> Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let task = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while open.try_join_next().is_some() {}
                let servers = Arc::clone(&servers);
                open.spawn(async move { pass(client, &servers).await });
            }
        });
        Ok(Self(task.abort_handle()))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An error is an end: of this connection, and for both sides.
async fn pass(client: TcpStream, servers: &Servers) -> Result<()> {
    let server = servers.connect()?;
    server.set_nonblocking(true)?;
    let (from_server, to_server) = TcpStream::from_std(server)?.into_split();
    let (from_client, to_client) = client.into_split();
    tokio::select! {
        ended = copy(from_client, to_server, &servers.traffic.asked) => ended,
        ended = copy(from_server, to_client, &servers.traffic.answered) => ended,
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, passed: &AtomicU64) -> Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let length = from.read(&mut buffer).await?;
        let Some(read) = buffer.get(..length).filter(|read| !read.is_empty()) else {
            return Ok(());
        };
        passed.fetch_add(length.try_into()?, Ordering::Relaxed);
        to.write_all(read).await?;
    }
}
