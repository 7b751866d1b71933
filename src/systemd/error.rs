use std::time::Duration;

use thiserror::Error;
use zbus::DBusError;

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

/// The bus says it for a peer that went away: the call may have been carried out.
const NO_REPLY: &str = "org.freedesktop.DBus.Error.NoReply";

impl SystemdError {
    /// Whether the other side said no. Without its word the call may have been carried out all the same.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Call { source, .. } => name(source).is_some_and(|name| name != NO_REPLY),
            Self::NotConfined { .. } => true,
            Self::Connect { .. } | Self::ConnectTimedOut { .. } => false,
        }
    }
}

/// The D-Bus error's name, where the other side answered with one. The bus's own errors come as another
/// variant than systemd's.
pub(super) fn name(error: &zbus::Error) -> Option<String> {
    match error {
        zbus::Error::MethodError(name, _, _) => Some(name.to_string()),
        zbus::Error::FDO(error) => Some(DBusError::name(error.as_ref()).to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bus_that_broke_off_is_no_refusal() {
        let broke = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let source = zbus::Error::InputOutput(broke.into());
        assert!(!asking(source).is_refusal());
        let no_reply = zbus::fdo::Error::NoReply(String::new());
        assert!(!asking(zbus::Error::FDO(Box::new(no_reply))).is_refusal());
    }

    #[test]
    fn the_bus_s_own_errors_have_names_too() {
        let denied = || zbus::Error::FDO(Box::new(zbus::fdo::Error::AccessDenied(String::new())));
        assert_eq!(name(&denied()).as_deref(), Some("org.freedesktop.DBus.Error.AccessDenied"));
        assert!(asking(denied()).is_refusal());
    }

    fn asking(source: zbus::Error) -> SystemdError {
        SystemdError::Call { what: "asking".to_owned(), source }
    }
}
