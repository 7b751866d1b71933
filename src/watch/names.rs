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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Of a request only its operation and its id reach systemd, and the id in one form.
    #[test]
    fn a_unit_is_named_after_operation_and_id_and_says_nothing_else() {
        let config = Config::load([]).unwrap().config;
        let id = "c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90";
        for operation in Operation::ALL {
            let name = operation.name();
            let mut text = json!({
                "schemaVersion": "1.0",
                "nodeUpdateId": "550E8400-E29B-41D4-A716-446655440000",
                "operationId": id.to_uppercase(),
                "operation": name,
            });
            let hostile = "$(reboot) %i %n \\x2d ${HOME} --help";
            for field in ["appId", "track"] {
                text[field] = json!(hostile);
            }
            text["server"] = json!("https://user:hostile@hostile/%i?hostile");
            if operation != Operation::Rollback {
                text["targetVersion"] = json!(hostile);
            }
            let request = Request::parse(&text.to_string()).unwrap();
            let unit = transient(&request, "/usr/bin/trident-acl-agent", &config);
            assert_eq!(unit.name, format!("trident-acl-agent-{name}-{id}.service"));
            assert_eq!(unit.description, format!("Trident {name} {id}"));
            assert_eq!(unit.arguments, ["operate", name, id]);
            assert_eq!(unit.program, "/usr/bin/trident-acl-agent");
            assert_eq!(unit.drop_ins.len(), 2);
            assert!(!format!("{unit:?}").contains(['$', '%', '\\', '@']), "{unit:?}");
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
            assert!(unit.name.chars().all(plain) && unit.name.len() < 100, "{}", unit.name);
        }
    }

    #[test]
    fn a_start_time_out_is_longer_than_the_calls_whatever_the_settings_are() {
        let most = std::ffi::OsString::from("3650days");
        let named = |name: &str| format!("TRIDENT_ACL_AGENT_ORCHESTRATION_{name}_TIMEOUT").into();
        let longest = [(named("STAGE"), most.clone()), (named("FINALIZE"), most)];
        for config in [Config::load([]), Config::load(longest)] {
            let config = config.unwrap().config;
            let timeout = |operation| start_timeout(operation, &config);
            assert!(timeout(Operation::Stage) > config.stage_timeout);
            assert!(timeout(Operation::Finalize) > config.finalize_timeout);
            let both = config.stage_timeout + config.finalize_timeout;
            assert!(timeout(Operation::Rollback) > both);
            assert!(u64::try_from(timeout(Operation::Rollback).as_micros()).is_ok());
        }
    }
}
