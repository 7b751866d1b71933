//! The end of the story in figures.

use anyhow::Result;
use trident_lab::lab::{Lab, NODE, WATCHER};

use crate::screen::Screen;
use crate::story::Step;

/// In bytes.
const PROGRAM_LIMIT: u64 = 8_000_000;
const MEMORY_LIMIT: u64 = 7_000_000;

/// `size`: of the program, in bytes.
pub(crate) async fn show(lab: &Lab, screen: &Screen, steps: &[Step], size: u64) -> Result<()> {
    screen.title("In the end");
    let (version, slot) = (lab.version().await?, lab.trident.booted_slot().slot);
    screen.row(&format!("{NODE} runs {version} from slot {slot:?}"));
    screen.row(&format!("each status that was published ({}) is valid", lab.published().len()));
    table(screen, steps);
    let memory = lab.node.memory(WATCHER).await?;
    let (resident, anonymous, file) =
        (kib(memory.resident), kib(memory.anonymous), kib(memory.file));
    screen.row("");
    screen.row(&limited("release program, stripped", size, PROGRAM_LIMIT));
    screen.row(&limited("idle watcher, resident", resident, MEMORY_LIMIT));
    screen.row(&format!("  of which its own {anonymous}, mapped files {file}"));
    screen.good("every step ended as it should");
    Ok(())
}

fn table(screen: &Screen, steps: &[Step]) {
    screen.row("");
    screen.row(&format!(
        "{:<12} {:>8}   of which tridentd (a stand-in that takes its time)",
        "step", "took"
    ));
    for step in steps {
        let (took, tridentd) = (step.took.as_secs_f32(), step.tridentd.as_secs_f32());
        screen.row(&format!("{:<12} {took:>6.2} s {tridentd:>6.2} s", step.name));
    }
}

fn limited(what: &str, is: u64, limit: u64) -> String {
    let verdict = if is <= limit { "within" } else { "OVER" };
    format!("{what}: {is} bytes, {verdict} the limit of {limit}")
}

fn kib(value: u64) -> u64 {
    value * 1024
}
