//! The daemon's log records, passed on at their own level under the target `tridentd`.
//!
//! There can be tens of thousands in a call. journald takes 10,000 of a unit in 30 s and drops what comes after,
//! whoever says it: so a flood is cut here, before it could drown our own words.

use std::time::Duration;

use tokio::time::Instant;

use super::redact;
use super::wire::v1::{Log, LogLevel};

const WINDOW: Duration = Duration::from_secs(30);
/// Records passed on in one window. Two of ours can fall into one of journald's.
const MOST: u32 = 4000;
/// Beside these, for what matters most.
const MOST_URGENT: u32 = 500;

/// A level is static for `tracing`, so each needs an event of its own; the fields stand here once.
macro_rules! emit {
    ($self:ident, $level:ident, $log:expr) => {{
        if tracing::enabled!(target: "tridentd", tracing::Level::$level)
            && $self.has_room(tracing::Level::$level)
        {
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

/// Passes the records of one call on.
#[derive(Debug)]
pub(super) struct Records {
    window: Instant,
    passed: u32,
    kept_back: u64,
}

impl Records {
    pub(super) fn new() -> Records {
        Records { window: Instant::now(), passed: 0, kept_back: 0 }
    }

    /// Passes one record on; a level that we do not know counts as INFO.
    pub(super) fn forward(&mut self, log: &Log) {
        match log.level() {
            LogLevel::Error => emit!(self, ERROR, log),
            LogLevel::Warn => emit!(self, WARN, log),
            LogLevel::Info | LogLevel::Unspecified => emit!(self, INFO, log),
            LogLevel::Debug => emit!(self, DEBUG, log),
            LogLevel::Trace => emit!(self, TRACE, log),
        }
    }

    fn has_room(&mut self, level: tracing::Level) -> bool {
        if self.window.elapsed() >= WINDOW {
            self.say_kept_back();
            *self = Records::new();
        }
        let most = if level <= tracing::Level::WARN { MOST + MOST_URGENT } else { MOST };
        let room = self.passed < most;
        match room {
            true => self.passed = self.passed.saturating_add(1),
            false => self.kept_back = self.kept_back.saturating_add(1),
        }
        room
    }

    fn say_kept_back(&mut self) {
        let count = std::mem::take(&mut self.kept_back);
        if count > 0 {
            tracing::warn!(
                count,
                "tridentd says too much: records were left out, see its own journal"
            );
        }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.say_kept_back();
    }
}

fn place(log: &Log) -> (Option<String>, Option<u32>) {
    let location = log.location.as_ref();
    (location.map(|at| redact::text(&at.path)), location.map(|at| at.line))
}
