//! What `systemctl status` says of the watcher.

use super::Watcher;
use super::look::Look;
use crate::kubernetes::Seen;
use crate::state::State;

impl Watcher {
    pub(super) fn announce(&mut self, look: Option<&Look>, trouble: Option<&str>) {
        let doing = match (&self.trouble, look) {
            (Some(trouble), _) => format!("cannot go on: {trouble}"),
            (None, Some(look)) => doing(look),
            (None, None) => "looking at this host".to_owned(),
        };
        let node = match (&self.node, trouble) {
            (_, Some(trouble)) => format!("API server: {trouble}"),
            (Seen::Unknown, None) => "waiting for the Node".to_owned(),
            (Seen::Gone, None) => "the Node does not exist".to_owned(),
            (Seen::Node(_), None) => {
                format!("watching Node {}", self.api.as_ref().map_or("", |api| api.name()))
            }
        };
        let unsaid = match self.said.failures() {
            0 => String::new(),
            failures => format!("; a status is not published yet ({failures} attempts)"),
        };
        self.notifier.status(&format!("{doing}; {node}{unsaid}"));
    }
}

fn doing(look: &Look) -> String {
    let State { operation, pending_commit, .. } = &look.state;
    match (operation, pending_commit) {
        _ if look.is_shutting_down() => "the host is shutting down".to_owned(),
        (Some(operation), _) => {
            let (name, id) =
                (operation.request.operation().name(), &operation.request.operation_id);
            match operation.starts {
                0 => format!("{name} {id} is accepted, not started yet"),
                starts => format!("{name} {id} is running (start {starts})"),
            }
        }
        (None, Some(pending)) => {
            let (name, id) = (pending.request.operation().name(), &pending.request.operation_id);
            format!("{name} {id} awaits its reboot or commit")
        }
        (None, None) => "idle".to_owned(),
    }
}
