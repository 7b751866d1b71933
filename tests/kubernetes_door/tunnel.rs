//! A proxy that knows CONNECT and nothing else.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// Serves until the test is over.
pub(crate) struct Tunnel {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Tunnel {
    pub(crate) async fn new() -> Result<Self> {
        Self::start(true).await
    }

    /// Lets nobody through.
    pub(crate) async fn refusing() -> Result<Self> {
        Self::start(false).await
    }

    async fn start(opens: bool) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let tunnel = Self { address: listener.local_addr()?, heads: Arc::default() };
        let heads = Arc::clone(&tunnel.heads);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, opens, Arc::clone(&heads)));
            }
        });
        Ok(tunnel)
    }

    /// What was asked of it since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.heads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn serve(mut client: TcpStream, opens: bool, heads: Arc<Mutex<Vec<String>>>) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    heads.lock().unwrap_or_else(PoisonError::into_inner).push(head);
    if !opens {
        client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await?;
        return Ok(());
    }
    let mut server = TcpStream::connect(target).await?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
