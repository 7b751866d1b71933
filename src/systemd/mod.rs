//! Door: systemd. Transient units and their results over D-Bus, logind for the reboot, `sd_notify`, and the
//! journal.
//!
//! Facts that shape this door: no `JobRemoved` is sent without `Subscribe`; a failed transient unit blocks
//! its name until it is reset; a dollar in a command line is expanded unless the flag says otherwise.

mod bus;
mod error;
mod journal;
mod logind;
mod notify;
mod signals;
mod units;

pub use bus::Systemd;
pub use error::SystemdError;
pub use journal::{LogError, init as init_log};
pub use notify::{Notifier, watchdog_interval};
pub use signals::follow_jobs;
pub use units::{Transient, UnitState};
