//! The sign of life of a running operation. Its own loop writes it, so that a heartbeat on the Node says that
//! the operation lives, and not only that somebody watches it.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::uptime;

/// Where a running operation leaves it, in the `RuntimeDirectory=` of the operation and commit units.
const PATH: &str = "/run/trident-acl-agent-operation/alive";
/// How often it is left.
pub const INTERVAL: Duration = Duration::from_secs(5);
/// An older one means a stuck operation.
const STALE: Duration = Duration::from_secs(30);

/// Leaves it: seconds since boot, which no clock change touches.
///
/// # Errors
/// The file cannot be written.
pub fn leave() -> io::Result<()> {
    use std::io::Write;
    let mut file = std::fs::File::create(PATH)?;
    write!(file, "{}", uptime().as_secs())
}

/// Whether an operation left one lately.
pub fn is_fresh() -> bool {
    is_fresh_at(Path::new(PATH), uptime())
}

fn is_fresh_at(path: &Path, now: Duration) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.parse().is_ok_and(|left: u64| now.as_secs().saturating_sub(left) <= STALE.as_secs())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn fresh_stale_absent_and_garbage() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("alive");
        assert!(!is_fresh_at(&path, Duration::from_secs(100)));
        for (text, fresh) in
            [("90", true), ("71", true), ("60", false), ("", false), ("soon", false)]
        {
            write!(std::fs::File::create(&path).unwrap(), "{text}").unwrap();
            assert_eq!(is_fresh_at(&path, Duration::from_secs(100)), fresh, "{text}");
        }
    }
}
