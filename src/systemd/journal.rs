//! Where records go: structured to the journal when it is what standard error is connected to, else as
//! plain text.

use std::io::Write;

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

/// One record is one line: a text that came from far away must not look like several of ours.
#[derive(Debug)]
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    /// A whole record, as the formatter hands it over.
    fn write(&mut self, record: &[u8]) -> std::io::Result<usize> {
        let text = record.strip_suffix(b"\n").unwrap_or(record);
        // Colours are the formatter's own; all other escapes it has made harmless.
        let breaks = |byte: u8| byte.is_ascii_control() && byte != b'\x1b';
        let mut line: Vec<u8> =
            text.iter().map(|it| if breaks(*it) { b' ' } else { *it }).collect();
        line.extend(record.get(text.len()..).unwrap_or_default());
        self.0.write_all(&line).map(|()| record.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

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
            .with_writer(|| OneLine(std::io::stderr()))
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .with_target(false);
        registry.with(text).try_init()
    };
    installed.map_err(|source| LogError::Install { source })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::{error, info_span};

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_record_is_one_line_without_orders_to_a_terminal() {
        let written = Shared::default();
        let writer = written.clone();
        let text = tracing_subscriber::fmt::layer().with_writer(move || OneLine(writer.clone()));
        let log = tracing_subscriber::registry().with(text.with_ansi(false).with_target(false));
        tracing::subscriber::with_default(log, || {
            let forged = "x\n2026-01-01T00:00:00Z ERROR forged\r\0\x0e\t\x1b[2J\x07\u{9b}31m";
            let span = info_span!("operation", target_version = forged);
            let _entered = span.entered();
            error!(held_by = forged, "message {forged}");
            error!("second");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<_> = text.split_terminator('\n').collect();
        assert_eq!(lines.len(), 2, "{text:?}");
        assert!(
            text.ends_with('\n') && lines[0].contains("forged") && lines[1].ends_with("second")
        );
        assert!(!text.replace('\n', "").chars().any(char::is_control), "{text:?}");
    }
}
