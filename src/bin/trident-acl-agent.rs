//! The command line: which flow to run, where records go, how the process ends.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use tracing::{Level, error, info, warn};
use trident_acl_agent::config::{self, Config};
use trident_acl_agent::contract::{AGENT_VERSION, Id, Operation, chain};
use trident_acl_agent::host::Host;
use trident_acl_agent::operate::{self, Ended, OperateError};
use trident_acl_agent::watch::{self, WatchError};
use trident_acl_agent::{check, systemd};

/// Set for a process that has taken over the watcher's environment already.
const MERGED: &str = "TRIDENT_ACL_AGENT_INTERNAL_MERGED";

/// Updates this Kubernetes node with Trident, as annotations on its Node ask for.
///
/// Without a command it watches the Node. Settings are environment variables, see trident-acl-agent(8).
#[derive(Debug, Parser)]
#[command(version = AGENT_VERSION)]
struct Arguments {
    /// Check one dependency with the current environment, and exit.
    #[arg(long, value_name = "DEPENDENCY")]
    validate_connection: Option<Dependency>,
    /// Least severe records that are logged.
    #[arg(long, value_name = "LEVEL", default_value = "info", global = true)]
    log_level: Level,
    #[command(subcommand)]
    command: Option<Task>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Dependency {
    Kubernetes,
    Tridentd,
    Nebraska,
}

#[derive(Debug, Clone, Subcommand)]
enum Task {
    /// Run one accepted operation; started by the watcher, as a unit of its own.
    Operate {
        operation: Step,
        /// Of the request; a UUID.
        #[arg(value_parser = |text: &str| Id::try_from(text.to_owned()))]
        operation_id: Id,
    },
    /// Resume the commit that is pending since before the boot; started at boot.
    Commit,
    /// Deliver the events that Nebraska is owed; started by a timer and by the watcher.
    Report,
    /// One pass instead of the resident watcher; started by a timer.
    Reconcile,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Step {
    Stage,
    Finalize,
    Rollback,
}

impl From<Step> for Operation {
    fn from(step: Step) -> Self {
        match step {
            Step::Stage => Self::Stage,
            Step::Finalize => Self::Finalize,
            Step::Rollback => Self::Rollback,
        }
    }
}

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    /// Done, or there was nothing to do.
    Good,
    /// The operation ended with a code that is not a good one; it is recorded and not tried again.
    Failed,
    /// The Node has been gone for longer than the settings allow.
    NodeGone,
    /// Something that a later attempt may find better.
    TryAgain,
    /// A setting is malformed: nothing was started.
    Configuration,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        // The larger ones follow sysexits.h, as systemd does.
        Self::from(match exit {
            Exit::Good => 0,
            Exit::Failed => 1,
            Exit::NodeGone => 69,
            Exit::TryAgain => 75,
            Exit::Configuration => 78,
        })
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.validate_connection.is_some() && arguments.command.is_some() {
        let both = "--validate-connection goes without a command";
        Arguments::command().error(ErrorKind::ArgumentConflict, both).exit();
    }
    if takes_over(&arguments) {
        take_over_environment();
    }
    if let Err(problem) = systemd::init_log(arguments.log_level) {
        complain(&problem);
    }
    run(&arguments).into()
}

/// The units beside the watcher start from its environment. A person's call does not, and neither does the
/// pass: it leaves its own for the others, and would hand on for ever what was taken out of the settings.
fn takes_over(arguments: &Arguments) -> bool {
    let takes = !matches!(arguments.command, None | Some(Task::Reconcile));
    takes && std::env::var_os(MERGED).is_none()
}

/// Variables that libraries read can only be set by starting anew with them.
fn take_over_environment() {
    let own = std::env::vars_os().map(|(name, _)| name).collect();
    let missing = match config::read_export(Path::new(config::EXPORT_PATH)) {
        Ok(export) => config::missing(export, &own),
        Err(problem) => {
            complain(&problem);
            return;
        }
    };
    if missing.is_empty() {
        return;
    }
    let mut again = Command::new(program());
    again.args(std::env::args_os().skip(1)).envs(missing).env(MERGED, "1");
    // Only returns when it failed.
    complain(&again.exec());
}

/// This program's path, as it was when it was started.
fn program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_unknown| PathBuf::from("/usr/bin/trident-acl-agent"))
}

#[expect(clippy::print_stderr, reason = "there is no log yet")]
fn complain(problem: &dyn std::error::Error) {
    eprintln!("trident-acl-agent: {}", chain(problem));
}

fn run(arguments: &Arguments) -> Exit {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        warn!("a TLS provider is installed already, ignoring");
    }
    let environment = std::env::vars_os().filter(|(name, _)| name != MERGED);
    let loaded = match Config::load(environment) {
        Ok(loaded) => loaded,
        Err(problem) => {
            error!("{problem}");
            return Exit::Configuration;
        }
    };
    loaded.warnings.iter().for_each(|warning| warn!("{warning}"));
    log_settings(&loaded.effective);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(problem) => {
            error!(%problem, "cannot start the runtime");
            return Exit::TryAgain;
        }
    };
    let exit = runtime.block_on(dispatch(arguments, loaded.config));
    // A name that is still being looked up must not hold the end up.
    runtime.shutdown_background();
    exit
}

fn log_settings(effective: &[(String, String)]) {
    let settings: Vec<_> =
        effective.iter().map(|(name, value)| format!("{name}={value}")).collect();
    info!(version = AGENT_VERSION, "effective settings: {}", settings.join(" "));
}

async fn dispatch(arguments: &Arguments, config: Config) -> Exit {
    let host = Host::new("/");
    if let Some(dependency) = arguments.validate_connection {
        return validate(dependency, &config, &host).await;
    }
    match &arguments.command {
        None => watched(watch::run(watch::Setup { config, host, program: program() }).await),
        Some(Task::Reconcile) => {
            watched(watch::reconcile(watch::Setup { config, host, program: program() }).await)
        }
        Some(Task::Operate { operation, operation_id }) => {
            let setup = operate::Setup { config, host };
            operated(operate::operate(setup, (*operation).into(), operation_id).await)
        }
        Some(Task::Commit) => operated(operate::commit(operate::Setup { config, host }).await),
        Some(Task::Report) => operated(operate::report(operate::Setup { config, host }).await),
    }
}

fn watched(ended: Result<(), WatchError>) -> Exit {
    match ended {
        Ok(()) => Exit::Good,
        Err(problem) => {
            error!("{}", chain(&problem));
            match problem {
                WatchError::NodeGoneTooLong { .. } => Exit::NodeGone,
                _ => Exit::TryAgain,
            }
        }
    }
}

fn operated(ended: Result<Ended, OperateError>) -> Exit {
    match ended {
        Ok(Ended::Idle) => Exit::Good,
        Ok(Ended::With(code)) if code.is_good() => Exit::Good,
        Ok(Ended::With(_)) => Exit::Failed,
        Err(problem) => {
            error!("{}", chain(&problem));
            Exit::TryAgain
        }
    }
}

#[expect(clippy::print_stderr, reason = "the answer to a person")]
async fn validate(dependency: Dependency, config: &Config, host: &Host) -> Exit {
    let checked = match dependency {
        Dependency::Kubernetes => check::kubernetes(config, host).await,
        Dependency::Tridentd => check::tridentd(config).await,
        Dependency::Nebraska => check::nebraska(config, host).await,
    };
    match checked {
        Ok(found) => {
            eprintln!("{found}");
            Exit::Good
        }
        Err(problem) => {
            eprintln!("{}", chain(&problem));
            Exit::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn each_task_is_understood() {
        let id = "c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90";
        for line in [
            &["agent"][..],
            &["agent", "commit"],
            &["agent", "report"],
            &["agent", "reconcile", "--log-level", "debug"],
            &["agent", "operate", "stage", id],
            &["agent", "--validate-connection", "tridentd"],
        ] {
            assert!(Arguments::try_parse_from(line).is_ok(), "{line:?}");
        }
        for line in
            [["commit", id], ["stage", ""], ["stage", "../x"], ["stage", &id.replace('-', "")]]
        {
            let line = ["agent", "operate"].into_iter().chain(line);
            assert!(Arguments::try_parse_from(line.clone()).is_err(), "{:?}", line.last());
        }
    }
}
