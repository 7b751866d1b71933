//! The switch of the test build: at each point the process tells the lab where it stands, and goes on when it
//! is told to. So the lab knows of every point in order, can kill this process exactly there, or cut the
//! node's power while it waits.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::Step;

/// Where the lab listens, beside tridentd's socket. Where it does not, nothing is stopped.
const SOCKET: &str = "/run/trident/stop-points.sock";
/// The lab's answer that ends this process.
const KILL: u8 = b'k';

/// Takes a step that is waited for; `of` says of what.
pub async fn awaited<T>(
    step: Step,
    of: &(impl AsRef<OsStr> + ?Sized),
    effect: impl Future<Output = T>,
) -> T {
    pass(step, of.as_ref(), "before");
    let ended = effect.await;
    pass(step, of.as_ref(), "after");
    ended
}

/// Takes a step that is done when it returns; `of` says of what.
pub fn done<T>(step: Step, of: &(impl AsRef<OsStr> + ?Sized), effect: impl FnOnce() -> T) -> T {
    pass(step, of.as_ref(), "before");
    let ended = effect();
    pass(step, of.as_ref(), "after");
    ended
}

/// The whole process waits, whatever else it was doing.
fn pass(step: Step, of: &OsStr, side: &str) {
    let of = of.to_string_lossy();
    let of = of.rsplit('/').next().unwrap_or_default();
    let point = [who().as_str(), step.name(), of, side].join("\t");
    let mut answer = [0];
    let told = UnixStream::connect(SOCKET).and_then(|mut lab| {
        lab.write_all(format!("{}\t{point}\n", std::process::id()).as_bytes())?;
        lab.read(&mut answer)
    });
    if told.is_ok() && answer == [KILL] {
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    }
}

/// Which of our processes this is: by the command that it was started with.
fn who() -> String {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("operate") => words.next().unwrap_or_default(),
        Some(command) if !command.starts_with('-') => command.to_owned(),
        _ => "watcher".to_owned(),
    }
}
