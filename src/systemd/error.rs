use std::time::Duration;

use thiserror::Error;

/// What systemd or logind did not do.
#[derive(Debug, Error)]
pub enum SystemdError {
    #[error("cannot connect to the system bus")]
    Connect { source: zbus::Error },
    #[error("the system bus did not answer within {}", humantime::format_duration(*after))]
    ConnectTimedOut { after: Duration },
    #[error("{what}")]
    Call { what: String, source: zbus::Error },
    #[error(
        "not starting {unit}: its settings and sandbox, the drop-in {drop_in}, are in none of systemd's \
         unit directories; reinstall the package"
    )]
    NotConfined { unit: String, drop_in: String },
}

/// The D-Bus error's name, where the other side answered with one.
pub(super) fn name(error: &zbus::Error) -> Option<&str> {
    match error {
        zbus::Error::MethodError(name, _, _) => Some(name.as_str()),
        _ => None,
    }
}
