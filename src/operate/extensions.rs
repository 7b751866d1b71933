//! The slotted extensions of a boot that is committed. They hold no commit up: what goes wrong with them is said.

use tracing::{info, warn};

use crate::contract::{Code, chain};
use crate::host::Host;
use crate::slots::{Report, Tree, confirm_boot};

/// Whether the booted slot's set loaded; proves it where the commit succeeded. What went wrong, in words.
pub(super) fn settle(host: &Host, code: Code) -> Option<String> {
    let tree = Tree::new(host.root());
    // No loader ran in this boot: nothing of it is slotted.
    let report = Report::read(&tree)?;
    if let Some(failure) = &report.failure {
        let (step, reason) = (&failure.step, &failure.reason);
        return Some(format!("its slotted extensions did not load: {step}: {reason}"));
    }
    if code != Code::Success {
        return None;
    }
    match confirm_boot(&tree, &report) {
        Ok(true) => info!("the slotted extensions of this boot are confirmed"),
        Ok(false) => {}
        Err(problem) => {
            let problem = chain(&problem);
            warn!("cannot confirm the slotted extensions, ignoring: {problem}");
            return Some(format!("its slotted extensions cannot be confirmed: {problem}"));
        }
    }
    None
}
