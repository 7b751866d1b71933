//! Where records go: structured to the journal when it is what standard error is connected to, else as
//! plain text.

use thiserror::Error;
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

#[derive(Debug, Error)]
pub enum LogError {
    #[error("cannot connect to the journal")]
    Journal { source: std::io::Error },
    #[error("cannot install the log")]
    Install { source: TryInitError },
}

/// As journald's own clients map them; nothing of ours is a notice.
const PRIORITIES: PriorityMappings = PriorityMappings {
    error: Priority::Error,
    warn: Priority::Warning,
    info: Priority::Informational,
    debug: Priority::Debug,
    trace: Priority::Debug,
};

/// Sets the log up for the whole process.
///
/// # Errors
/// [`LogError`].
pub fn init(level: Level) -> Result<(), LogError> {
    // The libraries' own records repeat what our errors say, at their own pace.
    let ours = Targets::new()
        .with_target("trident_acl_agent", level)
        .with_target("tridentd", level)
        .with_default(if level > Level::INFO {
            LevelFilter::from_level(level)
        } else {
            LevelFilter::OFF
        });
    let registry = tracing_subscriber::registry().with(ours);
    let installed = if libsystemd::logging::connected_to_journal() {
        let journal = tracing_journald::layer()
            .map_err(|source| LogError::Journal { source })?
            // The fields' own names: OPERATION_ID, not F_OPERATION_ID.
            .with_field_prefix(None)
            .with_priority_mappings(PRIORITIES)
            .with_syslog_identifier("trident-acl-agent".to_owned());
        registry.with(journal).try_init()
    } else {
        let text = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .with_target(false);
        registry.with(text).try_init()
    };
    installed.map_err(|source| LogError::Install { source })
}
