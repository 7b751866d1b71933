//! How a node is described before it boots.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use uuid::Uuid;

use super::cgroup::Cgroup;
use super::layer::Layer;
use super::loops;
use super::machine::{BeforeBoot, Initrd, Machine, Plan};
use super::network::Network;
use super::rootfs::{Release, Rootfs};
use super::scratch::Scratch;
use super::{BOOT_LIMIT, Node};

type Setup = Box<dyn FnOnce(&Layer) -> Result<()> + Send>;

/// Names that every node resolves to itself, where the stand-ins listen.
const HOSTS: &str =
    "127.0.0.1 localhost api.lab.test updates.lab.test\n::1 localhost ip6-localhost\n";

/// A node to be booted.
pub struct Builder {
    release: Release,
    hostname: String,
    machine_id: String,
    setup: Vec<Setup>,
    arguments: Vec<String>,
    before_boot: BeforeBoot,
    initrd: Option<BeforeBoot>,
    loops: bool,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("hostname", &self.hostname).finish_non_exhaustive()
    }
}

impl Builder {
    pub(super) fn new(release: Release, hostname: &str) -> Self {
        Self {
            release,
            hostname: hostname.to_owned(),
            machine_id: Uuid::new_v4().simple().to_string(),
            setup: Vec::new(),
            arguments: Vec::new(),
            before_boot: Box::new(|_, _| Ok(())),
            initrd: None,
            loops: false,
        }
    }

    /// Sets the machine id: 32 hexadecimal digits. The default is a random one.
    #[must_use]
    pub fn machine_id(mut self, id: &str) -> Self {
        self.machine_id = id.to_owned();
        self
    }

    /// Puts a file into the node, before its first boot.
    #[must_use]
    pub fn file(self, path: &str, bytes: impl AsRef<[u8]>, mode: u32) -> Self {
        let (path, bytes) = (path.to_owned(), bytes.as_ref().to_vec());
        self.setup(move |layer| layer.install(&path, bytes, mode))
    }

    /// Puts a symbolic link into the node, before its first boot.
    #[must_use]
    pub fn link(self, path: &str, to: &str) -> Self {
        let (path, to) = (path.to_owned(), to.to_owned());
        self.setup(move |layer| layer.link(&path, &to))
    }

    /// Lets a unit of `/usr/lib/systemd/system` or `/etc/systemd/system` be started at boot.
    #[must_use]
    pub fn want(self, unit: &str) -> Self {
        self.link(
            &format!("/etc/systemd/system/multi-user.target.wants/{unit}"),
            &format!("../{unit}"),
        )
    }

    /// Does anything to the node's files, before its first boot.
    #[must_use]
    pub fn setup(mut self, work: impl FnOnce(&Layer) -> Result<()> + Send + 'static) -> Self {
        self.setup.push(Box::new(work));
        self
    }

    /// Shows a file or directory of this machine in the node, writable, in each boot.
    #[must_use]
    pub fn bind(self, here: &Path, inside: &str) -> Self {
        self.argument(format!("--bind={}:{inside}", here.display()))
    }

    /// Shows a file or directory of this machine in the node, read-only, in each boot.
    #[must_use]
    pub fn bind_read_only(self, here: &Path, inside: &str) -> Self {
        self.argument(format!("--bind-ro={}:{inside}", here.display()))
    }

    /// Adds an argument for `systemd-nspawn`.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// What is done before each boot, with its number (from 1): the place of the firmware and of
    /// the slot's files. It runs in the node's own thread; an error leaves the node off.
    #[must_use]
    pub fn before_boot(
        mut self,
        work: impl FnMut(u32, &Layer) -> Result<()> + Send + 'static,
    ) -> Self {
        self.before_boot = Box::new(work);
        self
    }

    /// Boots by way of an initrd, and really switches from its root to the node's. The work puts files into
    /// it before each boot, over those of the node's release; nothing that a boot wrote there stays.
    #[must_use]
    pub fn initrd(mut self, work: impl FnMut(u32, &Layer) -> Result<()> + Send + 'static) -> Self {
        self.initrd = Some(Box::new(work));
        self
    }

    /// Gives the node loop devices, for images.
    #[must_use]
    pub fn loops(mut self) -> Self {
        self.loops = true;
        self
    }

    /// Boots, and waits until the default target is reached. A unit of that target that does not
    /// end its start keeps it from being reached: then use [`start`](Self::start).
    pub async fn boot(self) -> Result<Node> {
        let node = self.start().await?;
        node.wait_boot(1, BOOT_LIMIT).await?;
        Ok(node)
    }

    /// Boots, and waits only until PID 1 runs.
    pub async fn start(self) -> Result<Node> {
        if let Some(missing) = super::missing() {
            anyhow::bail!("this machine cannot boot a node: {missing}");
        }
        // Making a root file system takes a minute, and even a sweep blocks.
        let node = tokio::task::spawn_blocking(move || self.assemble()).await??;
        node.boot_again().await?;
        Ok(node)
    }

    fn assemble(mut self) -> Result<Node> {
        ensure!(self.hostname.len() <= 64, "the host name is too long");
        let lower = Rootfs::prepare(self.release)?;
        let scratch = Scratch::new()?;
        let layer = Layer::new(lower, scratch.path("upper"));
        self.identity(&layer)?;
        for work in self.setup {
            work(&layer)?;
        }
        if self.loops {
            // In front: what is no option is for PID 1, and all that follows.
            self.arguments.splice(0..0, loops::make(&scratch.path("devices"))?);
        }
        let initrd = match self.initrd {
            Some(before_boot) => Some(initrd(&layer, &scratch, before_boot)?),
            None => None,
        };
        let cgroup = Arc::new(Cgroup::new(scratch.name())?);
        let network = Network::new()?;
        let plan = Plan {
            name: scratch.name().to_owned(),
            network: network.path(),
            layer: layer.clone(),
            work: scratch.path("work"),
            merged: scratch.path("merged"),
            console: scratch.path("console.log"),
            notify: scratch.socket("notify"),
            arguments: self.arguments,
            before_boot: self.before_boot,
            initrd,
        };
        let machine = Machine::new(plan, Arc::clone(&cgroup))?;
        let machine_id = self.machine_id;
        Ok(Node { machine, cgroup, network, layer, machine_id, scratch })
    }

    fn identity(&self, layer: &Layer) -> Result<()> {
        layer.install("/etc/machine-id", format!("{}\n", self.machine_id), 0o444)?;
        layer.install("/etc/hostname", format!("{}\n", self.hostname), 0o644)?;
        layer.install("/etc/hosts", format!("{HOSTS}127.0.1.1 {}\n", self.hostname), 0o644)
    }
}

fn initrd(node: &Layer, scratch: &Scratch, before_boot: BeforeBoot) -> Result<Initrd> {
    let layer = Layer::new(node.lower().to_owned(), scratch.path("initrd"));
    let place = scratch.path("initrd-place");
    for directory in [layer.upper(), &place] {
        std::fs::create_dir_all(directory)?;
    }
    layer.install("/etc/initrd-release", "NAME=lab\nID=lab\n", 0o644)?;
    layer.directory("/sysroot")?;
    Ok(Initrd { layer, place, before_boot })
}
