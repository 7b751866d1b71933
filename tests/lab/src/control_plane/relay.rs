//! Passes bytes from a listener anywhere to the API server in its own network, as a load balancer does.

use std::sync::Arc;

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::Servers;

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
async fn pass(mut client: TcpStream, servers: &Servers) -> Result<()> {
    let server = servers.connect()?;
    server.set_nonblocking(true)?;
    copy_bidirectional(&mut client, &mut TcpStream::from_std(server)?).await?;
    Ok(())
}
