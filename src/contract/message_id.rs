//! Fixed ids of the records that mark an operation's way, for `journalctl MESSAGE_ID=`.

pub const OPERATION_STARTED: &str = "b1d4f0a4ad974b4d8b8f2e4c1f0c6a01";
pub const OPERATION_ENDED: &str = "b1d4f0a4ad974b4d8b8f2e4c1f0c6a02";
pub const REBOOT_ASKED: &str = "b1d4f0a4ad974b4d8b8f2e4c1f0c6a03";
pub const COMMIT_ENDED: &str = "b1d4f0a4ad974b4d8b8f2e4c1f0c6a04";
