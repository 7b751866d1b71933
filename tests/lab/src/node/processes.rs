//! Processes of this machine, as `/proc` shows them.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// When a process started, in clock ticks since boot; `None` when it is gone.
pub(super) fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses, which may hold spaces.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// The first child of a process.
pub(super) fn first_child(pid: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// Kills the first child of a process, which then buries it.
pub(super) fn kill_child(pid: u32) {
    if let Some(child) = first_child(pid).and_then(|pid| i32::try_from(pid).ok()) {
        let _ = kill(Pid::from_raw(child), Signal::SIGKILL);
    }
}

/// The number that a process has in the innermost pid namespace.
pub(super) fn inner_pid(pid: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    field(&status, "NSpid")?.split_whitespace().next_back().map(str::to_owned)
}

/// A field of `/proc/PID/status`.
pub(super) fn field<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.map(str::trim)
}
