//! The machine's power: boots in a thread of its own, again after each reboot, until it is switched
//! off.
//!
//! The kernel kills the container when the thread that spawned it ends (`PR_SET_PDEATHSIG` means
//! the parent's thread), so that thread lives as long as the node. Nothing is left when the test
//! process is killed.

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::watch;

use super::cgroup::Cgroup;
use super::layer::Layer;
use super::processes::{first_child, kill_child};
use super::scratch::poll;

/// How `systemd-nspawn` says that the container wants to be booted again.
const REBOOT: i32 = 133;
const END: &[u8] = b"X_LAB_END";

/// Mounts the root file system in the container's own mount namespace.
const START: &str =
    r#"mount -t overlay overlay -o "$1" "$2" && shift 2 && exec systemd-nspawn "$@""#;

/// The same, and boots the initrd that lies over the node's own files; the node is its `/sysroot`.
const START_INITRD: &str = r#"mount -t overlay overlay -o "$1" "$2" && mount -t tmpfs tmpfs "$3" &&
mkdir "$3/upper" "$3/work" "$3/root" &&
mount -t overlay overlay -o "lowerdir=$4,upperdir=$3/upper,workdir=$3/work" "$3/root" &&
shift 4 && exec systemd-nspawn "$@""#;

/// Called before each boot with its number, counting from 1.
pub(super) type BeforeBoot = Box<dyn FnMut(u32, &Layer) -> Result<()> + Send>;

/// Where the machine stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Power {
    /// Boots begun.
    pub(super) boots: u32,
    /// The newest boot that reached its default target.
    pub(super) ready: u32,
    /// PID 1 of the running boot, by its number outside.
    pub(super) leader: Option<u32>,
    /// Why it does not run.
    pub(super) off: Option<String>,
    wrapper: u32,
}

/// What is the same in every boot.
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) network: String,
    pub(super) layer: Layer,
    pub(super) work: PathBuf,
    pub(super) merged: PathBuf,
    pub(super) console: PathBuf,
    pub(super) notify: PathBuf,
    /// Further arguments for `systemd-nspawn`.
    pub(super) arguments: Vec<String>,
    pub(super) before_boot: BeforeBoot,
    pub(super) initrd: Option<Initrd>,
}

/// What runs first: its files lie over those of the node's release, and are gone after the boot.
pub(super) struct Initrd {
    pub(super) layer: Layer,
    /// Where it is put together, in memory.
    pub(super) place: PathBuf,
    /// Called before each boot, after the node's own.
    pub(super) before_boot: BeforeBoot,
}

#[derive(Debug)]
pub(super) struct Machine {
    power: watch::Receiver<Power>,
    cgroup: Arc<Cgroup>,
    notify: PathBuf,
    switch: Option<mpsc::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Machine {
    pub(super) fn new(plan: Plan, cgroup: Arc<Cgroup>) -> Result<Self> {
        let socket = UnixDatagram::bind(&plan.notify)
            .with_context(|| format!("cannot bind {}", plan.notify.display()))?;
        let (sender, power) = watch::channel(Power::default());
        let sender = Arc::new(sender);
        let (switch, pressed) = mpsc::channel();
        let notify = plan.notify.clone();
        let driver =
            Driver { plan, cgroup: Arc::clone(&cgroup), power: Arc::clone(&sender), pressed };
        let listener = thread::Builder::new().name("lab-notify".into());
        let threads = vec![
            thread::Builder::new().name("lab-power".into()).spawn(move || driver.run())?,
            listener.spawn(move || listen(&socket, &sender))?,
        ];
        Ok(Self { power, cgroup, notify, switch: Some(switch), threads })
    }

    pub(super) fn watch(&self) -> watch::Receiver<Power> {
        self.power.clone()
    }

    pub(super) fn press(&self) -> Result<()> {
        let switch = self.switch.as_ref().context("the node is gone")?;
        switch.send(()).context("the node's thread is gone")
    }

    /// Kills all of it at once.
    pub(super) fn kill(&self) -> Result<()> {
        // With the pid namespace's first process all others go, and the wrapper buries it. The
        // cgroup alone would kill the wrapper too, and leave the burial to this machine's PID 1,
        // which may be slow.
        let wrapper = self.power.borrow().wrapper;
        kill_child(wrapper);
        poll(Duration::from_secs(2), || first_child(wrapper).is_none());
        self.cgroup.clear()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Without a switch the thread cannot begin another boot, not even a reboot.
        self.switch = None;
        if let Err(error) = self.kill() {
            eprintln!("lab: {error:#}");
        }
        let _ = UnixDatagram::unbound().and_then(|socket| socket.send_to(END, &self.notify));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Driver {
    plan: Plan,
    cgroup: Arc<Cgroup>,
    power: Arc<watch::Sender<Power>>,
    pressed: mpsc::Receiver<()>,
}

impl Driver {
    fn run(mut self) {
        while self.pressed.recv().is_ok() {
            let why = loop {
                match self.boot() {
                    Ok(REBOOT) if !self.switched_off() => {}
                    Ok(REBOOT | 0) => break "it was powered off".to_owned(),
                    Ok(code) => break format!("systemd-nspawn ended with {code}"),
                    Err(error) => break format!("{error:#}"),
                }
            };
            self.power.send_modify(|power| power.off = Some(why));
        }
    }

    fn switched_off(&self) -> bool {
        matches!(self.pressed.try_recv(), Err(mpsc::TryRecvError::Disconnected))
    }

    /// One boot, from before it begins until it has ended; the answer is the exit code.
    fn boot(&mut self) -> Result<i32> {
        self.cgroup.clear()?;
        let number = self.power.borrow().boots + 1;
        (self.plan.before_boot)(number, &self.plan.layer).context("before_boot failed")?;
        if let Some(initrd) = &mut self.plan.initrd {
            (initrd.before_boot)(number, &initrd.layer)
                .context("the initrd's before_boot failed")?;
        }
        let mut child = self.spawn()?;
        self.power.send_modify(|power| {
            power.boots = number;
            power.wrapper = child.id();
            power.off = None;
        });
        let status = child.wait();
        self.power.send_modify(|power| power.leader = None);
        status?.code().context("the power was cut")
    }

    fn spawn(&self) -> Result<Child> {
        let plan = &self.plan;
        let log = File::options().create(true).append(true).open(&plan.console)?;
        let mut command = self.cgroup.command();
        command.arg("nsenter").arg(format!("--net={}", plan.network));
        command.args(["unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child"]);
        command.args(["--propagation", "private", "--", "sh", "-c"]);
        let root = start(&mut command, plan);
        command.args(["--quiet", "--register=no", "--keep-unit", "--boot"]);
        // A read-only console keeps the output of units; a pipe loses it.
        command.args(["--console=read-only", "--notify-ready=yes", "--capability=CAP_NET_ADMIN"]);
        command.arg(format!("--machine={}", plan.name)).arg("-D").arg(root);
        if plan.initrd.is_some() {
            command.arg(format!("--bind={}:/sysroot", plan.merged.display()));
            // Its root is an overlay, and systemd 252 wants memory.
            command.arg("--setenv=SYSTEMD_IN_INITRD=lenient");
        }
        command.args(&plan.arguments);
        command.env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1").env("NOTIFY_SOCKET", &plan.notify);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn().context("cannot start the container")
    }
}

/// The script and its arguments; what is booted.
fn start(command: &mut Command, plan: &Plan) -> PathBuf {
    let script = if plan.initrd.is_some() { START_INITRD } else { START };
    command.args([script, "start"]).arg(overlay(plan)).arg(&plan.merged);
    let Some(initrd) = &plan.initrd else { return plan.merged.clone() };
    let (upper, lower) = (initrd.layer.upper().display(), initrd.layer.lower().display());
    command.arg(&initrd.place).arg(format!("{upper}:{lower}"));
    initrd.place.join("root")
}

fn overlay(plan: &Plan) -> String {
    let (lower, upper) = (plan.layer.lower().display(), plan.layer.upper().display());
    format!("lowerdir={lower},upperdir={upper},workdir={}", plan.work.display())
}

/// Takes what the container manager announces: first that PID 1 runs, then that the boot is
/// complete.
fn listen(socket: &UnixDatagram, power: &watch::Sender<Power>) {
    let mut buffer = [0; 4096];
    while let Ok(length) = socket.recv(&mut buffer) {
        let datagram = buffer.get(..length).unwrap_or_default();
        if datagram == END {
            return;
        }
        let text = String::from_utf8_lossy(datagram);
        if text.contains("X_NSPAWN_LEADER_PID=") {
            announce_leader(power);
        }
        if text.lines().any(|line| line == "READY=1") {
            power.send_modify(|power| power.ready = power.boots);
        }
    }
}

/// The announced number is one of another pid namespace: the leader is the child of the wrapper's
/// child.
fn announce_leader(power: &watch::Sender<Power>) {
    let mut leader = None;
    poll(Duration::from_secs(2), || {
        let wrapper = power.borrow().wrapper;
        leader = first_child(wrapper).and_then(first_child);
        leader.is_some()
    });
    power.send_modify(|power| power.leader = leader);
}
