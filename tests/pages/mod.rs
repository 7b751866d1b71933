//! What a document says, taken apart: tables, and what its reader is to type.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use trident_lab::lab::NODE;

const MANUAL: &str = "docs/man/trident-acl-agent.8";
/// What a document may run on the node.
const PROGRAMS: [&str; 7] = [
    "systemctl",
    "journalctl",
    "systemd-inhibit",
    "systemd-analyze",
    "trident-acl-agent",
    "mkdir",
    "cat",
];

/// A step of a document.
#[derive(Debug)]
pub(crate) enum Step {
    /// `kubectl annotate`: key and value.
    Annotate(String, String),
    /// `kubectl get` of one annotation.
    Get(String),
    Make(String),
    /// A script for the node's shell.
    Node(String),
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn read(file: &str) -> Result<String> {
    std::fs::read_to_string(root().join(file)).with_context(|| format!("cannot read {file}"))
}

pub(crate) fn manual() -> Result<String> {
    Ok(read(MANUAL)?.replace("\\-", "-"))
}

/// Every Markdown file, the README first.
pub(crate) fn documents() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for directory in ["", "docs", "docs/decisions"] {
        for entry in std::fs::read_dir(root().join(directory))? {
            let path: PathBuf = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path.strip_prefix(root())?.display().to_string());
            }
        }
    }
    found.sort_by_key(|file| (file != "README.md", file.clone()));
    ensure!(found.len() > 10, "{found:?}");
    Ok(found)
}

/// The cells of every table row.
pub(crate) fn rows(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    lines.map(|line| line.split(" | ").map(str::to_owned).collect()).collect()
}

pub(crate) fn bare(cell: &str) -> String {
    cell.trim_matches('`').to_owned()
}

/// The manual's examples.
pub(crate) fn examples() -> Result<Vec<Step>> {
    let manual = manual()?;
    let blocks = manual.split(".EX\n").skip(1).filter_map(|rest| rest.split(".EE").next());
    let steps: Vec<_> =
        blocks.flat_map(str::lines).map(step).collect::<Result<Vec<_>>>().context(MANUAL)?;
    ensure!(steps.len() > 3);
    Ok(steps)
}

/// What a document has its reader type. A script of several lines is one step.
pub(crate) fn steps(file: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for (language, block) in blocks(&read(file)?) {
        let found = match language.as_str() {
            "console" => typed(&block).iter().map(|command| step(command)).collect(),
            "sh" if block.starts_with("make") => block.lines().map(step).collect(),
            "sh" => script(&block).map(|script| vec![script]),
            "" => Ok(Vec::new()),
            other => bail!("{file}: a block of {other}, which nobody checks"),
        };
        steps.extend(found.with_context(|| file.to_owned())?);
    }
    Ok(steps)
}

/// Language and content of each fenced block.
fn blocks(text: &str) -> Vec<(String, String)> {
    let block = |part: &str| {
        let (language, content) = part.split_once('\n')?;
        Some((language.to_owned(), content.to_owned()))
    };
    text.split("```").skip(1).step_by(2).filter_map(block).collect()
}

/// The commands between their output. One goes on for as long as a quote is open.
fn typed(block: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push(command.to_owned()),
            (None, Some(open)) if shlex::split(open).is_none() => {
                open.push('\n');
                open.push_str(line);
            }
            (None, _) => {}
        }
    }
    commands
}

fn step(command: &str) -> Result<Step> {
    let words = shlex::split(command).with_context(|| format!("an open quote: {command}"))?;
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["kubectl", "annotate", "node", NODE, "--overwrite", pair] => {
            let (key, value) = pair.split_once('=').context("no value")?;
            Ok(Step::Annotate(key.to_owned(), value.to_owned()))
        }
        ["kubectl", "get", "node", NODE, "-o", path] => {
            let path = path.strip_prefix("jsonpath={.metadata.annotations.");
            let key = path.and_then(|key| key.strip_suffix('}')).context("no annotation")?;
            Ok(Step::Get(key.replace('\\', "")))
        }
        ["make", target] => Ok(Step::Make((*target).to_owned())),
        [program, ..] if PROGRAMS.contains(program) => Ok(Step::Node(command.to_owned())),
        _ => bail!("nobody checks this command: {command}"),
    }
}

/// A whole script, every line of it known; the text of a here-document is no command.
fn script(block: &str) -> Result<Step> {
    let mut document = false;
    for line in block.lines() {
        if document {
            document = line != "END";
        } else {
            step(line.split(" > ").next().unwrap_or(line))?;
            document = line.ends_with("<<'END'");
        }
    }
    Ok(Step::Node(block.to_owned()))
}
