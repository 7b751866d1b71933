use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::keeper::Keeper;
use super::programs::Programs;
use super::{API_SERVER, arguments};
use crate::node::scratch::{Scratch, poll};
use crate::tls::Pki;

/// How long a start or an orderly stop may take on a busy machine; idle, it takes some seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// The two processes, their network and their files.
#[derive(Debug)]
pub(super) struct Servers {
    programs: Programs,
    // In the order in which they may go: what runs, then what it used.
    etcd: Mutex<Child>,
    api_server: Mutex<Option<Child>>,
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
        let servers = Self { programs, etcd, api_server, keeper, scratch };
        servers.start_api_server(&[])?;
        Ok(servers)
    }

    pub(super) fn start_api_server(&self, further: &[&str]) -> Result<()> {
        let mut running = lock(&self.api_server);
        ensure!(running.is_none(), "the API server runs");
        let mut arguments = arguments::kube_apiserver(&self.directory());
        arguments.extend(further.iter().map(|argument| (*argument).to_owned()));
        let (program, log) = (self.programs.path("kube-apiserver"), self.log());
        *running = Some(self.keeper.serve(&program, &arguments, &log)?);
        Ok(())
    }

    /// With SIGTERM in order, with SIGKILL like a crash.
    pub(super) fn stop_api_server(&self, signal: Signal) -> Result<()> {
        let mut running = lock(&self.api_server);
        let mut child = running.take().context("the API server does not run")?;
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
        self.keeper.network().connect(API_SERVER)
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
