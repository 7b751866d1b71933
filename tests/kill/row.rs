//! The rows: where one process of one part of an update is stopped, and how.

use std::collections::HashMap;
use std::fmt;

use trident_acl_agent::steps::{Kind, Step};
use trident_lab::stops::{Point, Side};

/// From one request to the end of all that it brings about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Part {
    Stage,
    /// With the reboot and the commit.
    Finalize,
    /// With the reboot and the commit.
    Rollback,
}

impl Part {
    pub(crate) const ALL: [Self; 3] = [Self::Stage, Self::Finalize, Self::Rollback];

    pub(crate) fn reboots(self) -> bool {
        self != Self::Stage
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stage => "stage",
            Self::Finalize => "finalize",
            Self::Rollback => "rollback",
        })
    }
}

/// A point, told from all others of its part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) who: String,
    pub(crate) step: &'static str,
    of: String,
    nth: u32,
    pub(crate) side: Side,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Before => "before",
            Side::After => "after",
        };
        write!(f, "{} {side} {}", self.who, self.step)?;
        if !self.of.is_empty() {
            write!(f, " ({})", self.of)?;
        }
        if self.nth > 1 { write!(f, " #{}", self.nth) } else { Ok(()) }
    }
}

/// How it is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// The process, by SIGKILL.
    Kill,
    /// The whole node, and tridentd with it.
    Power,
}

impl Action {
    pub(crate) const ALL: [Self; 2] = [Self::Kill, Self::Power];
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "killed",
            Self::Power => "power cut",
        })
    }
}

/// One stop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stop {
    pub(crate) key: Key,
    pub(crate) action: Action,
}

/// One row of the matrix: the last stop is the row's own, what is before it leads there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) part: Part,
    pub(crate) stops: Vec<Stop>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.part)?;
        for (number, Stop { key, action }) in self.stops.iter().enumerate() {
            write!(f, "{} {key}, {action}", if number == 0 { ":" } else { "; then" })?;
        }
        Ok(())
    }
}

/// Makes keys of points.
#[derive(Debug)]
pub(crate) struct Counter {
    boot: u32,
    counts: HashMap<(String, &'static str, String, Side), u32>,
}

impl Counter {
    /// `boot`: the one in which it begins.
    pub(crate) fn new(boot: u32) -> Self {
        Self { boot, counts: HashMap::new() }
    }

    pub(crate) fn boot(&self) -> u32 {
        self.boot
    }

    /// `None`: a question that was asked before. One time is like another.
    pub(crate) fn key(&mut self, point: &Point) -> Option<Key> {
        let step = step(&point.step);
        let resident = matches!(point.who.as_str(), "watcher" | "reconcile");
        let who = match resident && point.boot > self.boot {
            true => format!("{} after the boot", point.who),
            false => point.who.clone(),
        };
        let name = (who.clone(), step.name(), point.of.clone(), point.side);
        let count = self.counts.entry(name).or_default();
        *count += 1;
        let counts = step.kind() == Kind::Effect || *count == 1;
        let (of, nth, side) = (point.of.clone(), *count, point.side);
        counts.then(|| Key { who, step: step.name(), of, nth, side })
    }
}

fn step(name: &str) -> Step {
    let mut declared = Step::ALL.iter().filter(|step| step.name() == name);
    *declared.next().unwrap_or_else(|| panic!("the program passes {name}, which is not declared"))
}
