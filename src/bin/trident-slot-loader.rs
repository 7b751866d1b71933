//! The loader's command line: `load` and `recover`, for the initrd.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::prelude::{Long, Short, Value, ValueExt};
use trident_slots::{
    DEFAULT_STORE, LastFailure, Options, Outcome, REPORT_PATH, RecoverError, Report, Slot,
    Strategy, Tree, chain, load, recover,
};

const USAGE: &str = "\
Publishes the extensions of the slot that booted; run in the initrd, see trident-slot-loader(8).

Usage: trident-slot-loader <load|recover> [OPTIONS]

Options:
  --root DIR       the tree to work on [default: /]
  --sysroot DIR    the real root, within it [default: /sysroot]
  --store DIR      the store, within the real root [default: /var/trident/extensions]
  --slot a|b       the booted slot [default: found]
  --confext HOW    overlay, native or none [default: overlay]
  --version, --help
";

/// The program's name for the store, as for `trident-slotctl`.
const STORE_VARIABLE: &str = "TRIDENT_SLOT_LOADER_STORE";
/// The command line is not understood.
const MISUSED: u8 = 2;

#[derive(Debug, PartialEq, Eq)]
enum Task {
    Load,
    Recover,
}

#[derive(Debug)]
struct Arguments {
    task: Task,
    root: PathBuf,
    sysroot: PathBuf,
    store: Option<PathBuf>,
    slot: Option<Slot>,
    confext: Option<Strategy>,
}

fn main() -> ExitCode {
    match parse(lexopt::Parser::from_env()) {
        Ok(Some(arguments)) => run(arguments),
        Ok(None) => ExitCode::SUCCESS,
        Err(problem) => {
            say(Level::Error, &chain(&problem));
            ExitCode::from(MISUSED)
        }
    }
}

/// `None`: answered already.
fn parse(mut parser: lexopt::Parser) -> Result<Option<Arguments>, lexopt::Error> {
    let mut task = None;
    let mut arguments = Arguments {
        task: Task::Load,
        root: "/".into(),
        sysroot: "/sysroot".into(),
        store: std::env::var_os(STORE_VARIABLE).filter(|it| !it.is_empty()).map(PathBuf::from),
        slot: None,
        confext: None,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("help") | Short('h') => return Ok(answer(USAGE)),
            Long("version") => {
                let version = env!("CARGO_PKG_VERSION");
                return Ok(answer(&format!("trident-slot-loader {version}\n")));
            }
            Long("root") => arguments.root = parser.value()?.into(),
            Long("sysroot") => arguments.sysroot = parser.value()?.into(),
            Long("store") => arguments.store = Some(parser.value()?.into()),
            Long("slot") => arguments.slot = Some(parser.value()?.parse()?),
            Long("confext") => arguments.confext = Some(parser.value()?.parse()?),
            Value(name) if task.is_none() => task = Some(task_of(name)?),
            other => return Err(other.unexpected()),
        }
    }
    arguments.task = task.ok_or("a command is missing: load or recover")?;
    Ok(Some(arguments))
}

fn task_of(name: OsString) -> Result<Task, lexopt::Error> {
    match name.to_str() {
        Some("load") => Ok(Task::Load),
        Some("recover") => Ok(Task::Recover),
        _ => Err(format!("unknown command {name:?}").into()),
    }
}

fn run(arguments: Arguments) -> ExitCode {
    let tree = Tree::new(&arguments.root);
    let good = match arguments.task {
        Task::Load => loaded(&tree, arguments),
        Task::Recover => recovered(&tree, arguments),
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn loaded(tree: &Tree, arguments: Arguments) -> bool {
    let Arguments { sysroot, store, slot, confext, .. } = arguments;
    // If this process is killed, that is what its boot knows of it.
    if let Err(problem) =
        Report::begun(store.clone().unwrap_or_else(|| DEFAULT_STORE.into())).write(tree)
    {
        say(Level::Warning, &format!("cannot write {REPORT_PATH}: {problem}"));
    }
    let report = load(&Options { tree: tree.clone(), sysroot, store, slot, confext });
    tell(&report);
    if let Err(problem) = report.write(tree) {
        say(Level::Error, &format!("cannot write {REPORT_PATH}: {problem}"));
        return false;
    }
    report.outcome != Outcome::Failed
}

fn tell(report: &Report) {
    for left in &report.left_out {
        let (kind, name, reason) = (left.kind, &left.name, &left.reason);
        say(Level::Warning, &format!("left out the optional {kind} {name}: {reason}"));
    }
    let slot = report.slot.map(|slot| format!(" of slot {slot}")).unwrap_or_default();
    match (&report.failure, report.outcome) {
        (Some(failure), _) => {
            say(Level::Error, &format!("{}: {}", failure.step, failure.reason));
        }
        (None, Outcome::Published) => {
            say(Level::Info, &format!("published {}{slot}", report.published.len()));
        }
        (None, _) => say(Level::Info, &format!("nothing to publish{slot}")),
    }
}

fn recovered(tree: &Tree, arguments: Arguments) -> bool {
    let said = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("MONITOR_"))?;
        Some((name, value.to_string_lossy().into_owned()))
    });
    let said = said.collect();
    let kept: Result<LastFailure, RecoverError> =
        recover(tree, &arguments.sysroot, arguments.store, &said);
    match kept {
        Ok(failure) => {
            say(Level::Error, &format!("the update's boot failed: {}", failure.reason));
            true
        }
        Err(problem) => {
            say(Level::Error, &format!("cannot keep the reason: {}", chain(&problem)));
            false
        }
    }
}

#[derive(Clone, Copy)]
enum Level {
    Error = 3,
    Warning = 4,
    Info = 6,
}

/// With systemd's level in front, where it listens.
#[expect(clippy::print_stderr, reason = "this is the log")]
fn say(level: Level, text: &str) {
    match std::env::var_os("JOURNAL_STREAM") {
        Some(_) => eprintln!("<{}>{text}", level as u8),
        None => eprintln!("trident-slot-loader: {text}"),
    }
}

#[expect(clippy::print_stdout, reason = "the answer to a person")]
fn answer(text: &str) -> Option<Arguments> {
    print!("{text}");
    None
}
