//! One network namespace per node. It belongs to the node, not to a boot: what is bound in it
//! survives a reboot.

use std::fs::File;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace with only `lo`, kept alive by its open file.
#[derive(Debug)]
pub(crate) struct Network {
    namespace: File,
}

impl Network {
    pub(crate) fn new() -> Result<Self> {
        in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).context("cannot make a network namespace")?;
            let status = Command::new("ip").args(["link", "set", "lo", "up"]).status()?;
            ensure!(status.success(), "cannot bring lo up: {status}");
            Ok(Self { namespace: File::open("/proc/thread-self/ns/net")? })
        })
    }

    /// A path to it that any process of this machine can open while this test process lives.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.namespace.as_raw_fd())
    }

    pub(crate) fn bind(&self, address: impl ToSocketAddrs + Send) -> Result<TcpListener> {
        self.within(|| TcpListener::bind(address).context("cannot bind in the node's network"))
    }

    pub(crate) fn connect(&self, address: impl ToSocketAddrs + Send) -> Result<TcpStream> {
        self.within(|| Ok(TcpStream::connect(address)?))
    }

    fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        in_thread(|| {
            setns(&self.namespace, CloneFlags::CLONE_NEWNET).context("cannot enter the network")?;
            work()
        })
    }
}

/// A namespace is entered by a thread for good, so each time by one that ends at once.
fn in_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| scope.spawn(work).join())
        .map_err(|_| anyhow!("a thread in another network namespace panicked"))?
}
