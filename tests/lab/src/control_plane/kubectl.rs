use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::servers::Servers;
use crate::node::Output;

/// The real kubectl, with the identity of somebody.
#[derive(Clone, Debug)]
pub struct Kubectl {
    servers: Arc<Servers>,
    kubeconfig: PathBuf,
}

impl Kubectl {
    pub(super) fn new(servers: Arc<Servers>, user: &str, kubeconfig: &str) -> Result<Self> {
        let name = format!("{}.kubeconfig", user.replace([':', '/'], "_"));
        let path = servers.directory().join(name);
        std::fs::write(&path, kubeconfig)?;
        Ok(Self { servers, kubeconfig: path })
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.servers.kubectl();
        let server = format!("--server={}", self.servers.url());
        command.arg(server).arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        command
    }

    /// Runs it; what it says is for the caller to judge.
    pub fn run(&self, arguments: &[&str]) -> Result<Output> {
        self.run_with(arguments, "")
    }

    /// Runs it with an input.
    pub fn run_with(&self, arguments: &[&str], input: &str) -> Result<Output> {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.servers.spawn(command)?;
        let mut stdin = child.stdin.take().context("no standard input")?;
        // It may end without reading its input.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output()?;
        Ok(Output {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs it; an error unless it succeeds.
    pub fn expect(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        let text = output.text().with_context(|| format!("kubectl {}", arguments.join(" ")))?;
        Ok(text.to_owned())
    }

    /// Creates or replaces what these objects describe.
    pub fn apply(&self, objects: &str) -> Result<()> {
        self.run_with(&["apply", "-f", "-"], objects)?.text()?;
        Ok(())
    }

    /// Merges a patch into a Node; the refusal, if it is one.
    pub fn patch(&self, node: &str, patch: &Value, further: &[&str]) -> Result<Option<String>> {
        let arguments = ["patch", "node", node, "--type=merge", "--patch-file=/dev/stdin"];
        let said = self.run_with(&[&arguments[..], further].concat(), &patch.to_string())?;
        Ok((said.code != Some(0)).then_some(said.stderr))
    }

    pub fn get(&self, what: &[&str]) -> Result<Value> {
        let text = self.expect(&[&["get", "-o", "json"], what].concat())?;
        Ok(serde_json::from_str(&text)?)
    }

    /// The refusal of something that must not succeed.
    pub fn refused(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        ensure!(output.code != Some(0), "kubectl {}: {}", arguments.join(" "), output.stdout);
        Ok(output.stderr)
    }
}
