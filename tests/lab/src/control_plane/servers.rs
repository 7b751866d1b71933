use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::arguments;
use super::keeper::Keeper;
use super::programs::Programs;
use super::relay::Traffic;
use crate::node::scratch::{Scratch, poll};
use crate::tls::Pki;

/// Where API servers listen, in their own network: one while another is replaced by it.
const PORTS: [u16; 2] = [6443, 6444];
/// How long a start or an orderly stop may take on a busy machine; idle, it takes some seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// The two processes, their network and their files.
#[derive(Debug)]
pub(super) struct Servers {
    programs: Programs,
    // In the order in which they may go: what runs, then what it used.
    etcd: Mutex<Child>,
    api_server: Mutex<Option<Child>>,
    port: AtomicU16,
    pub(super) traffic: Traffic,
    keeper: Keeper,
    scratch: Scratch,
}

impl Servers {
    /// Both run; the API server may not be ready yet.
    pub(super) fn start(pki: &Pki) -> Result<Self> {
        let programs = Programs::find()?;
        let scratch = Scratch::new()?;
        let keeper = Keeper::new(scratch.name())?;
        let directory = scratch.path("");
        let server = pki.server_cert(&["127.0.0.1", "localhost", "api.lab.test"]);
        std::fs::write(directory.join("ca.pem"), pki.ca_pem())?;
        std::fs::write(directory.join("server.pem"), server.cert_pem)?;
        std::fs::write(directory.join("server.key"), server.key_pem)?;
        let log = directory.join("etcd.log");
        let etcd = keeper.serve(&programs.path("etcd"), &arguments::etcd(&directory), &log)?;
        let (etcd, api_server) = (Mutex::new(etcd), Mutex::new(None));
        let (port, traffic) = (AtomicU16::new(PORTS[0]), Traffic::default());
        let servers = Self { programs, etcd, api_server, port, traffic, keeper, scratch };
        servers.start_api_server()?;
        Ok(servers)
    }

    /// On the port of before.
    pub(super) fn start_api_server(&self) -> Result<()> {
        let mut running = lock(&self.api_server);
        ensure!(running.is_none(), "the API server runs");
        *running = Some(self.spawn_api_server(self.port())?);
        Ok(())
    }

    /// Another one on the same etcd, which takes the place of the first for whatever connects from now on.
    /// The first goes on, and is returned.
    pub(super) fn start_another(&self) -> Result<Child> {
        let port = PORTS[usize::from(self.port() == PORTS[0])];
        let another = self.spawn_api_server(port)?;
        self.port.store(port, Ordering::SeqCst);
        lock(&self.api_server).replace(another).context("there is none to replace")
    }

    fn spawn_api_server(&self, port: u16) -> Result<Child> {
        let arguments = arguments::kube_apiserver(&self.directory(), port);
        self.keeper.serve(&self.programs.path("kube-apiserver"), &arguments, &self.log())
    }

    /// With SIGTERM in order, with SIGKILL like a crash.
    pub(super) fn stop_api_server(&self, signal: Signal) -> Result<()> {
        let child = lock(&self.api_server).take().context("the API server does not run")?;
        self.end(child, signal)
    }

    pub(super) fn end(&self, mut child: Child, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(child.id().try_into()?), signal)?;
        let ended = poll(LIMIT, || child.try_wait().is_ok_and(|status| status.is_some()));
        ensure!(ended, "the API server does not stop\n{}", self.story());
        Ok(())
    }

    /// An error when it has ended by itself.
    pub(super) fn check_alive(&self) -> Result<()> {
        let mut running = lock(&self.api_server);
        let child = running.as_mut().context("the API server does not run")?;
        match child.try_wait()? {
            Some(status) => bail!("kube-apiserver ended with {status}\n{}", self.story()),
            None => Ok(()),
        }
    }

    pub(super) fn connect(&self) -> Result<TcpStream> {
        self.keeper.network().connect(("127.0.0.1", self.port()))
    }

    /// As those in its network see it.
    pub(super) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port())
    }

    fn port(&self) -> u16 {
        self.port.load(Ordering::SeqCst)
    }

    /// kubectl in the servers' network.
    pub(super) fn kubectl(&self) -> Command {
        let mut command = self.keeper.command(&self.programs.path("kubectl"));
        command.env("HOME", self.directory());
        command
    }

    pub(super) fn spawn(&self, command: Command) -> Result<Child> {
        self.keeper.spawn(command)
    }

    /// Everything, at once.
    pub(super) fn kill(&self) {
        let etcd = &mut *lock(&self.etcd);
        let mut api_server = lock(&self.api_server);
        for child in api_server.iter_mut().chain([etcd]) {
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Err(error) = self.keeper.kill() {
            eprintln!("lab: {error:#}");
        }
    }

    pub(super) fn directory(&self) -> PathBuf {
        self.scratch.path("")
    }

    fn log(&self) -> PathBuf {
        self.directory().join("kube-apiserver.log")
    }

    /// The end of the API server's log, for an error.
    pub(super) fn story(&self) -> String {
        let text = std::fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<_> = text.lines().collect();
        lines.get(lines.len().saturating_sub(30)..).unwrap_or_default().join("\n")
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.kill();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic under lock")
}
