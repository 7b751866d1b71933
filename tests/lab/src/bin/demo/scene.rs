//! What tridentd says while it works, and how long it takes: enough to be seen.

use std::time::Duration;

use trident_lab::trident::proto::v1::LogLevel;
use trident_lab::trident::{Method, Record, Script, Tridentd};

/// Between the stages of a real update there are minutes.
const WORK: Duration = Duration::from_millis(1500);

/// Scripts one call of each method that a step makes.
pub(crate) fn set(trident: &Tridentd, methods: &[Method]) {
    for method in methods {
        trident.next(*method, script(*method));
    }
}

fn script(method: Method) -> Script {
    lines(method)
        .iter()
        .fold(Script::new(), |script, line| script.logs(1, Record::new(LogLevel::Info, line)))
        .delay(WORK)
}

fn lines(method: Method) -> &'static [&'static str] {
    match method {
        Method::UpdateStage => &[
            "Validating the image against its SHA-384",
            "Streaming the image onto the inactive slot",
            "Wrote 1 of 1 partitions",
        ],
        Method::UpdateFinalize => &["Arming a one-time boot of the updated slot"],
        Method::RollbackStage => &["Preparing a manual rollback to the other slot"],
        Method::RollbackFinalize => &["Arming a one-time boot of the previous slot"],
        Method::Commit => &["Booted from the expected slot", "Setting the boot order"],
        _ => &[],
    }
}
