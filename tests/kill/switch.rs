//! What each point is answered: the stops of a row, and an order for what else would be a race.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use trident_lab::stops::{Answer, Point, Side, Stops};

use super::row::{Action, Counter, Course, Key, Part, Stop, Way};

/// A stop that was carried out.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) stop: Stop,
    /// How far the boot into the other slot had come; known of a power cut.
    pub(crate) slot: OtherSlot,
}

/// How far the boot into the other slot has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherSlot {
    /// The next boot is what this one is: not armed yet, or committed.
    AsItIs,
    /// The next boot is the other slot's.
    Armed,
    /// This is its one boot, which is not committed yet: the next falls back.
    Trying,
}

/// The switch of one part; clones share it.
#[derive(Clone)]
pub(crate) struct Switch(Arc<Mutex<Inner>>);

struct Inner {
    part: Part,
    way: Way,
    /// After the power cut that leads to where the row begins: the operation that is resumed has to wait until
    /// this boot's commit has found nothing, which else is a race.
    resumes_later: bool,
    counter: Counter,
    stops: VecDeque<Stop>,
    hits: Vec<Hit>,
    /// The power is to be cut, and all processes wait for that.
    frozen: bool,
    /// What was passed since the last stop.
    passed: Vec<Key>,
}

impl Switch {
    /// From now on, the lab stops at these points, in this order.
    pub(crate) fn set(stops: &Stops, course: &Course, boot: u32, wanted: &[Stop]) -> Self {
        let inner = Inner {
            part: course.part,
            way: course.way,
            resumes_later: course.lead.as_ref().is_some_and(|lead| lead.action.cuts_power()),
            counter: Counter::new(boot),
            stops: wanted.iter().cloned().collect(),
            hits: Vec::new(),
            frozen: false,
            passed: Vec::new(),
        };
        let switch = Self(Arc::new(Mutex::new(inner)));
        let rule = switch.clone();
        stops.rule(move |point, is_new| rule.lock().answer(point, is_new));
        switch
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no panic under the lock")
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.lock().frozen
    }

    /// The stop that is carried out takes the state file too.
    pub(crate) fn loses(&self) -> bool {
        self.lock().hits.last().is_some_and(|hit| hit.stop.action == Action::Lose)
    }

    /// The power was cut; the node boots.
    pub(crate) fn thaw(&self, slot: OtherSlot) {
        let mut inner = self.lock();
        inner.frozen = false;
        if let Some(hit) = inner.hits.last_mut() {
            hit.slot = slot;
        }
    }

    /// What is resumed in this boot is held up.
    pub(crate) fn holds_back(&self) -> bool {
        let inner = self.lock();
        inner.resumes_later && inner.hits.len() == 1 && !inner.frozen
    }

    /// It may go on.
    pub(crate) fn let_resume(&self) {
        self.lock().resumes_later = false;
    }

    /// The next stop that was not reached yet.
    pub(crate) fn missing(&self) -> Option<Stop> {
        self.lock().stops.front().cloned()
    }

    pub(crate) fn hits(&self) -> Vec<Hit> {
        self.lock().hits.clone()
    }

    /// An operation that was killed with its outcome recorded is not started again: its unit stays failed
    /// until the next one. A commit of a node that fell back is no good end.
    pub(crate) fn explains(&self, failed: &str) -> bool {
        let killed = |hit: &Hit| match hit.stop.action {
            Action::Kill => failed.starts_with(&format!("trident-acl-agent-{}-", hit.stop.key.who)),
            Action::Power | Action::Lose => false,
        };
        let fell_back = |hit: &Hit| {
            hit.slot == OtherSlot::Trying && failed.starts_with("trident-acl-agent-commit.service")
        };
        self.lock().hits.iter().any(|hit| killed(hit) || fell_back(hit))
    }

    pub(crate) fn passed(&self) -> Vec<Key> {
        self.lock().passed.clone()
    }
}

impl Inner {
    fn answer(&mut self, point: &Point, is_new: bool) -> Answer {
        let key = if is_new { self.counter.key(point) } else { None };
        if self.frozen {
            return Answer::Wait;
        }
        if let Some(key) = key {
            if self.stops.front().is_some_and(|stop| stop.key == key) {
                return self.hit(point);
            }
            self.passed.push(key);
        }
        if self.is_too_early(point) { Answer::Wait } else { Answer::Go }
    }

    fn hit(&mut self, point: &Point) -> Answer {
        let Some(stop) = self.stops.pop_front() else { return Answer::Go };
        let action = stop.action;
        self.hits.push(Hit { stop, slot: OtherSlot::AsItIs });
        self.counter = Counter::new(point.boot);
        self.passed.clear();
        self.frozen = action.cuts_power();
        if self.frozen { Answer::Wait } else { Answer::Kill }
    }

    /// Until the row's own stop there is one order, so that it comes by there. After it things go as they come.
    fn is_too_early(&self, point: &Point) -> bool {
        let boots = point.boot > self.counter.boot();
        match self.hits.len() {
            0 => self.is_before_its_turn(point, boots),
            1 => {
                self.resumes_later && boots && matches!(point.who.as_str(), "finalize" | "rollback")
            }
            _ => false,
        }
    }

    /// The event goes out before the reboot, and after the boot either the commit is through before the watcher
    /// looks, or the watcher has announced it before it begins.
    fn is_before_its_turn(&self, point: &Point, boots: bool) -> bool {
        let at = |step: &str| point.step == step && point.side == Side::Before;
        match (point.who.as_str(), self.part) {
            ("watcher" | "reconcile", Part::Finalize) if at("logind.Reboot") => {
                !self.has_written("report", 1)
            }
            // The environment for the other units is its first. With the lock it would keep the watcher out.
            ("commit", _) if self.way == Way::WatcherFirst && at("file.lock") && boots => {
                !self.has_written("watcher after the boot", 2)
            }
            ("watcher" | "reconcile", _)
                if self.way != Way::WatcherFirst && at("kubernetes.get") && boots =>
            {
                !self.has_written("commit", 2)
            }
            _ => false,
        }
    }

    fn has_written(&self, who: &str, times: usize) -> bool {
        let written =
            |key: &&Key| key.who == who && key.step == "directory.flush" && key.side == Side::After;
        self.passed.iter().filter(written).count() >= times
    }
}
