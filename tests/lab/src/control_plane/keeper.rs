//! Starts programs in one cgroup and one network, all of which end with this test process: the kernel kills
//! a program when the thread that spawned it ends, so that thread lives as long as its owner.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result};

use crate::node::cgroup::Cgroup;
use crate::node::network::Network;

type Order = (Command, mpsc::Sender<std::io::Result<Child>>);

#[derive(Debug)]
pub(super) struct Keeper {
    orders: mpsc::Sender<Order>,
    cgroup: Cgroup,
    network: Network,
}

impl Keeper {
    pub(super) fn new(name: &str) -> Result<Self> {
        let (orders, taken) = mpsc::channel::<Order>();
        thread::Builder::new().name("lab-keeper".into()).spawn(move || {
            for (mut command, answer) in taken {
                let _ = answer.send(command.spawn());
            }
        })?;
        Ok(Self { orders, cgroup: Cgroup::new(name)?, network: Network::new()? })
    }

    pub(super) fn network(&self) -> &Network {
        &self.network
    }

    /// A program that is to run in the cgroup and in the network.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = self.cgroup.command();
        command.arg("nsenter").arg(format!("--net={}", self.network.path())).arg(program);
        command.stdin(Stdio::null());
        command
    }

    /// Kills whatever it started.
    pub(super) fn kill(&self) -> Result<()> {
        self.cgroup.clear()
    }

    pub(super) fn spawn(&self, command: Command) -> Result<Child> {
        let (answer, child) = mpsc::channel();
        self.orders.send((command, answer)).ok().context("the keeper's thread is gone")?;
        child.recv()?.context("cannot start a program")
    }

    /// Starts a server, whose output goes to a file.
    pub(super) fn serve(&self, program: &Path, arguments: &[String], log: &Path) -> Result<Child> {
        let log = File::options().create(true).append(true).open(log)?;
        let mut command = self.command(program);
        command.args(arguments).stdout(log.try_clone()?).stderr(log);
        self.spawn(command)
    }
}
