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

/// How the node is, and what keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// As it ships: a resident watcher.
    Watched,
    /// The same, and after a boot the watcher comes before the commit.
    WatcherFirst,
    /// Passes by the timer, and nobody resident.
    Passes,
    /// Somebody blocks the reboot for a while. Only from systemd 257 on is root held too.
    Held,
}

/// A point, told from all others of its part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) who: String,
    pub(crate) step: &'static str,
    pub(crate) of: String,
    pub(crate) nth: u32,
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
    /// The same, and the state file is gone when it boots.
    Lose,
}

impl Action {
    /// What nothing may be lost by.
    pub(crate) const STOPS: [Self; 2] = [Self::Kill, Self::Power];

    pub(crate) fn cuts_power(self) -> bool {
        self != Self::Kill
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "killed",
            Self::Power => "power cut",
            Self::Lose => "state lost",
        })
    }
}

/// One stop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stop {
    pub(crate) key: Key,
    pub(crate) action: Action,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.key, self.action)
    }
}

/// A part on its way, with what leads to the steps that a good run does not take.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Course {
    pub(crate) way: Way,
    pub(crate) part: Part,
    pub(crate) lead: Option<Stop>,
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.part)?;
        match self.way {
            Way::Watched => {}
            Way::WatcherFirst => write!(f, ", the watcher first")?,
            Way::Passes => write!(f, " by passes")?,
            Way::Held => write!(f, " held up")?,
        }
        self.lead.iter().try_for_each(|lead| write!(f, " after [{lead}]"))
    }
}

/// One row of the matrix. Without a stop, it only goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) course: Course,
    pub(crate) stop: Option<Stop>,
}

impl Row {
    pub(crate) fn loses(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.action == Action::Lose)
    }

    /// It clears a unit that the part before it left, which is gone after a power cut.
    pub(crate) fn clears_what_is_left(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.key.step == Step::StopUnit.name())
    }

    /// In their order.
    pub(crate) fn stops(&self) -> Vec<Stop> {
        self.course.lead.iter().chain(&self.stop).cloned().collect()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.course)?;
        self.stop.iter().try_for_each(|stop| write!(f, ": {stop}"))
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
    *declared.next().expect("the program has its names from the same table")
}
