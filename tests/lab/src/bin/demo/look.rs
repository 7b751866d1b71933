//! What `systemctl status` says of a step's unit.

use anyhow::Result;
use trident_lab::node::Node;

use crate::screen::Screen;

const HOLD: &str = "demo-look.service";

/// Prints it, with the newest lines of its journal.
pub(crate) async fn status(node: &Node, screen: &Screen, unit: &str) -> Result<()> {
    let colours = format!("SYSTEMD_COLORS={}", u8::from(screen.colour()));
    let command = ["env", &colours, "systemctl", "status", "--no-pager", "--full", "-n", "4", unit];
    screen.note(&format!("node-1# systemctl status {unit}"));
    // Its exit code tells of the unit: 3 for one that ended.
    screen.quote(node.run(&command).await?.stdout.trim_end());
    Ok(())
}

/// Delays the next reboot, by logind's own means and for five seconds at most, so that the unit can be
/// looked at after its end.
pub(crate) async fn hold_reboot(node: &Node) -> Result<()> {
    let unit = format!("--unit={HOLD}");
    let run =
        ["systemd-run", "--quiet", &unit, "systemd-inhibit", "--what=shutdown", "--mode=delay"];
    let why = ["--who=demo", "--why=looks at the finished unit", "sleep", "infinity"];
    node.run(&[&run[..], &why[..]].concat()).await?.text()?;
    Ok(())
}

pub(crate) async fn let_reboot(node: &Node) -> Result<()> {
    // Not waited for: nothing of ours may be inside when the node goes down.
    node.systemctl(&["stop", "--no-block", HOLD]).await?.text()?;
    Ok(())
}
