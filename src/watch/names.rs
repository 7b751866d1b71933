//! The units that this flow starts, and how.

use std::time::Duration;

use crate::config::Config;
use crate::contract::{Operation, Request};
use crate::systemd::Transient;

/// Every unit of ours begins with this.
pub(super) const PREFIX: &str = "trident-acl-agent-";
pub(super) const COMMIT: &str = "trident-acl-agent-commit.service";
pub(super) const REPORT: &str = "trident-acl-agent-report.service";

/// What a start time-out leaves beyond the calls' own: asking Nebraska, writing the state.
const MARGIN: Duration = Duration::from_secs(300);

/// The ids are UUIDs, so that nothing foreign gets into a unit's name.
pub(super) fn unit(request: &Request) -> String {
    format!("{}-{}.service", prefix(request.operation()), request.operation_id.canonical())
}

fn prefix(operation: Operation) -> String {
    format!("{PREFIX}{}", operation.name())
}

/// Globs for the units of all operations.
pub(super) fn all_operations() -> Vec<String> {
    Operation::ALL.into_iter().map(|it| format!("{}-*.service", prefix(it))).collect()
}

pub(super) fn transient(request: &Request, program: &str, config: &Config) -> Transient {
    let operation = request.operation();
    let id = request.operation_id.canonical();
    Transient {
        name: unit(request),
        drop_ins: vec![
            format!("{PREFIX}.service.d/05-sandbox.conf"),
            format!("{}-.service.d/10-defaults.conf", prefix(operation)),
        ],
        description: format!("Trident {} {id}", operation.name()),
        program: program.to_owned(),
        arguments: vec!["operate".to_owned(), operation.name().to_owned(), id],
        start_timeout: start_timeout(operation, config),
    }
}

/// Follows from the calls' own time-outs: systemd ends only what is stuck.
fn start_timeout(operation: Operation, config: &Config) -> Duration {
    let calls = match operation {
        Operation::Stage => config.stage_timeout,
        Operation::Finalize => config.finalize_timeout,
        Operation::Rollback => config.stage_timeout + config.finalize_timeout,
    };
    calls + MARGIN
}
