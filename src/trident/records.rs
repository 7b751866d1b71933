//! The daemon's log records, passed on at their own level under the target `tridentd`.

use super::redact;
use super::wire::v1::{Log, LogLevel};

/// A level is static for `tracing`, so each needs an event of its own; the fields stand here once.
macro_rules! emit {
    ($level:ident, $log:expr) => {{
        if tracing::enabled!(target: "tridentd", tracing::Level::$level) {
            let (file, line) = place($log);
            tracing::event!(
                target: "tridentd",
                tracing::Level::$level,
                message = redact::text(&$log.message),
                trident_target = redact::text(&$log.target),
                trident_module = redact::text(&$log.module),
                trident_file = file,
                trident_line = line,
            );
        }
    }};
}

/// Passes one record on; a level that we do not know counts as INFO.
pub(super) fn forward(log: &Log) {
    match log.level() {
        LogLevel::Error => emit!(ERROR, log),
        LogLevel::Warn => emit!(WARN, log),
        LogLevel::Info | LogLevel::Unspecified => emit!(INFO, log),
        LogLevel::Debug => emit!(DEBUG, log),
        LogLevel::Trace => emit!(TRACE, log),
    }
}

fn place(log: &Log) -> (Option<String>, Option<u32>) {
    let location = log.location.as_ref();
    (location.map(|at| redact::text(&at.path)), location.map(|at| at.line))
}
