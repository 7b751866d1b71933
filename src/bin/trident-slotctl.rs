//! The stager's command line, for the running host.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use trident_fetch::Network;
use trident_slots::{
    Address, Bundle, ConfirmError, DEFAULT_STORE, Event, KeepError, Listing, Manifest, Origin,
    Sha384, Slot, StageError, Staged, Staging, Store, Tree, Wanted, What, chain, stage,
};

/// As for the loader.
const STORE_VARIABLE: &str = "TRIDENT_SLOT_LOADER_STORE";

/// Looks after the extensions of an A/B host's slots.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The host tree to work on.
    #[arg(long, value_name = "DIR", default_value = "/", global = true)]
    root: PathBuf,
    /// The store, within the tree [default: $TRIDENT_SLOT_LOADER_STORE, what the wanted set says, or
    /// /var/trident/extensions].
    #[arg(long, value_name = "DIR", global = true)]
    store: Option<PathBuf>,
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Make the wanted set the set of the slot that will boot next.
    Stage(Stage),
    /// Show both sets, what this boot published, and what differs.
    List {
        /// For machines.
        #[arg(long)]
        json: bool,
    },
    /// Hash every image of both slots.
    Verify,
    /// The boot of the staged set was good.
    Confirm,
    /// Remove the images that neither slot names.
    Prune {
        /// Wait for whoever works on the store.
        #[arg(long)]
        wait: bool,
    },
}

#[derive(Debug, Args)]
struct Stage {
    /// The wanted set: a Host Configuration, or a part of one with its `os` section; YAML or JSON.
    wanted: PathBuf,
    /// A COSI file whose extensions belong to the wanted set: a path, or a URL of file, https or oci.
    #[arg(long, value_name = "FILE|URL")]
    cosi: Option<String>,
    /// The SHA-384 of its metadata.json, by somebody trusted.
    #[arg(long, value_name = "HASH", requires = "cosi")]
    cosi_metadata_sha384: Option<Sha384>,
    /// The slot that runs [default: found].
    #[arg(long, value_name = "a|b")]
    booted: Option<Slot>,
    /// The slot to stage for [default: the other one].
    #[arg(long, value_name = "a|b")]
    slot: Option<Slot>,
    /// The version of the OS that the set is for.
    #[arg(long, value_name = "VERSION")]
    os_version: Option<String>,
    /// The slot that runs has no slot loader yet, and that is meant.
    #[arg(long)]
    first: bool,
    /// Wait for whoever works on the store.
    #[arg(long)]
    wait: bool,
}

/// How the process ends.
#[derive(Debug, Clone, Copy)]
enum Exit {
    Good,
    /// Refused, damaged or not possible; nothing was changed.
    Failed,
    /// Somebody else works on the store, or a set is pending: a later attempt may find it better.
    TryAgain,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Good => 0,
            Exit::Failed => 1,
            Exit::TryAgain => 75,
        })
    }
}

type Outcome = Result<Exit, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(exit) => exit.into(),
        Err(problem) => {
            say(&chain(problem.as_ref()));
            later(problem.as_ref()).into()
        }
    }
}

fn later(problem: &(dyn std::error::Error + 'static)) -> Exit {
    let staging = matches!(problem.downcast_ref(), Some(StageError::Lock(_)));
    let keeping = matches!(problem.downcast_ref(), Some(KeepError::Lock(_) | KeepError::Pending));
    if staging || keeping { Exit::TryAgain } else { Exit::Failed }
}

fn run(arguments: Arguments) -> Outcome {
    let tree = Tree::new(&arguments.root);
    let named = || std::env::var_os(STORE_VARIABLE).map(PathBuf::from);
    let store = arguments.store.or_else(named).filter(|path| !path.as_os_str().is_empty());
    let task = match arguments.task {
        Task::Stage(asked) => return staged(tree, store, asked),
        task => task,
    };
    let path = store.unwrap_or_else(|| DEFAULT_STORE.into());
    let Some(store) = Store::open(&tree, &path)? else {
        say(&format!("there is no store at {}", path.display()));
        // Nothing to confirm is what a host without slotted extensions has after each commit.
        return Ok(if matches!(task, Task::Confirm) { Exit::Good } else { Exit::Failed });
    };
    match task {
        Task::Stage(_) => Ok(Exit::Failed),
        Task::List { json } => listed(&store.list(&tree)?, json),
        Task::Verify => verified(&store),
        Task::Confirm => {
            let confirmed = store.confirm().map_err(ConfirmError::from)?;
            let said = if confirmed { "confirmed" } else { "nothing was pending" };
            print(said);
            Ok(Exit::Good)
        }
        Task::Prune { wait } => {
            store
                .prune(wait)?
                .iter()
                .for_each(|path| print(&format!("removed {}", path.display())));
            Ok(Exit::Good)
        }
    }
}

fn staged(tree: Tree, store: Option<PathBuf>, asked: Stage) -> Outcome {
    let Stage { wanted, cosi, cosi_metadata_sha384, booted, slot, os_version, first, wait } = asked;
    let wanted = read(&wanted)?;
    let mut network = Network::new(tree.clone());
    let bundle =
        cosi.map(|location| bundle(&mut network, &location, cosi_metadata_sha384.as_ref()));
    let bundle = bundle.transpose()?;
    let target = slot;
    let staging = Staging { tree, wanted, bundle, store, booted, target, os_version, first, wait };
    let mut progress = Progress::new();
    match stage(&staging, &mut network, &mut |event| progress.show(event))? {
        Staged::Unused => print("nothing is slotted: nothing to do"),
        Staged::Set { slot, extensions, reused } => {
            print(&format!(
                "staged {extensions} extensions for slot {slot}, {reused} of them reused"
            ));
        }
    }
    Ok(Exit::Good)
}

fn bundle(
    network: &mut Network,
    location: &str,
    metadata: Option<&Sha384>,
) -> Result<Bundle, Box<dyn std::error::Error>> {
    let shown = Address::from(location.to_owned());
    let read = network.bundle(location, metadata);
    Ok(read.map_err(|problem| format!("cannot use {shown}: {}", chain(&problem)))?)
}

/// More is no configuration.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

fn read(path: &Path) -> Result<Wanted, Box<dyn std::error::Error>> {
    let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
    let name = path.file_name().ok_or("the wanted set is no file")?;
    let bytes = Tree::new(directory).read(Path::new(name), MAX_BYTES)?;
    let text = String::from_utf8(bytes)?;
    Ok(serde_saphyr::from_str(&text)?)
}

fn listed(listing: &Listing, json: bool) -> Outcome {
    if json {
        print(&serde_json::to_string_pretty(listing)?);
        return Ok(Exit::Good);
    }
    print(&format!("store {}", listing.store.display()));
    for (slot, set) in [("a", &listing.a), ("b", &listing.b)] {
        print(&described(slot, set.as_ref(), listing.pending.as_deref() == Some(slot)));
    }
    match &listing.published {
        None => print("no loader ran in this boot"),
        Some(report) => {
            let slot = report.slot.map_or("unknown", Slot::name);
            print(&format!("this boot: {} published, slot {slot}", report.published.len()));
            if let Some(failure) = &report.failure {
                print(&format!("  failed: {}: {}", failure.step, failure.reason));
            }
            for left in &report.left_out {
                print(&format!("  left out: {} {}: {}", left.kind, left.name, left.reason));
            }
        }
    }
    for difference in &listing.differences {
        let what = match difference.what {
            What::OnlyInA => "only in a",
            What::OnlyInB => "only in b",
            What::OtherContent => "not the same in a and b",
        };
        print(&format!("differs: {} {}: {what}", difference.kind, difference.name));
    }
    Ok(Exit::Good)
}

fn described(slot: &str, set: Option<&Manifest>, pending: bool) -> String {
    let Some(set) = set else { return format!("slot {slot}: no set") };
    let version = set.os_version.as_deref().map(|it| format!(" for {it}")).unwrap_or_default();
    let mark = if pending { ", pending" } else { "" };
    let lines = set.extensions.iter().map(|it| {
        format!("\n  {} {} ({}), {} bytes, sha384 {}", it.kind, it.name, it.id, it.size, it.sha384)
    });
    format!(
        "slot {slot}: {} extensions{version}{mark}{}",
        set.extensions.len(),
        lines.collect::<String>()
    )
}

fn verified(store: &Store) -> Outcome {
    let damages = store.damages()?;
    for damage in &damages {
        let (slot, kind, name, reason) = (damage.slot, damage.kind, &damage.name, &damage.reason);
        print(&format!("slot {slot}: {kind} {name}: {reason}"));
    }
    if damages.is_empty() {
        print("every image is as its record says");
    }
    Ok(if damages.is_empty() { Exit::Good } else { Exit::Failed })
}

/// A line that is written over on a terminal, one line for each image elsewhere.
struct Progress {
    terminal: bool,
    percent: u64,
}

impl Progress {
    fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), percent: 0 }
    }

    fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Reused { of, from } => say(&format!("{of}: as in slot {from}")),
            Event::OtherOs { name, id } => {
                say(&format!(
                    "warning: {name} is for the OS {id:?}: systemd will not merge it here"
                ));
            }
            Event::Copied { of, done, size } if self.terminal => self.bar(of, *done, *size),
            Event::Copied { of, done, size } if done == size => say(&format!("{of}: {size} bytes")),
            Event::Copied { .. } => {}
        }
    }

    #[expect(clippy::print_stderr, reason = "for a person who waits")]
    fn bar(&mut self, of: &Origin, done: u64, size: u64) {
        let percent = done.saturating_mul(100) / size.max(1);
        if percent != self.percent {
            self.percent = percent;
            let filled = usize::try_from(percent / 5).unwrap_or(20);
            eprint!("\r{of} [{:<20}] {percent:>3} %", "#".repeat(filled));
            drop(std::io::stderr().flush());
        }
        if done == size {
            eprintln!();
            self.percent = 0;
        }
    }
}

#[expect(clippy::print_stderr, reason = "this is the log")]
fn say(text: &str) {
    eprintln!("trident-slotctl: {text}");
}

#[expect(clippy::print_stdout, reason = "the answer")]
fn print(text: &str) {
    println!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
