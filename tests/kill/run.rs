//! Rows on several nodes at once.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use anyhow::anyhow;
use trident_lab::lab::Lab;
use trident_lab::node::Release;
use uuid::Uuid;

use super::matrix::{boot, release};
use super::row::{Course, Part, Row, Way};
use super::{lost, part};

/// Updates and rollbacks of one node, before there is a fresh one: what it has published is checked anew
/// each time.
const CYCLES: usize = 10;
/// A node waits most of the time.
const NODES: usize = 4;
/// How often a row is taken to a point that two processes race for.
const TRIES: usize = 5;

/// How often a run says how far it has come.
const SAID_EVERY: usize = 100;

/// How the rows ended.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) right: usize,
    pub(crate) wrong: Vec<Wrong>,
}

pub(crate) struct Wrong {
    pub(crate) row: Row,
    pub(crate) release: Release,
    pub(crate) why: String,
}

struct Plan {
    rows: VecDeque<Row>,
    /// Rows that did not come by their point.
    missed: Vec<Row>,
    ends: Ends,
}

/// Every row, on nodes of both releases.
pub(crate) async fn run(rows: Vec<Row>) -> Ends {
    let plan = Mutex::new(Plan { rows: rows.into(), missed: Vec::new(), ends: Ends::default() });
    let nodes = (0..NODES).map(|node| work(Release::ALL[node % Release::ALL.len()], &plan));
    futures_util::future::join_all(nodes).await;
    plan.into_inner().expect("no panic under the lock").ends
}

fn locked(plan: &Mutex<Plan>) -> MutexGuard<'_, Plan> {
    plan.lock().expect("no panic under the lock")
}

/// One node after the other, until no row is left.
async fn work(wanted: Release, plan: &Mutex<Plan>) {
    loop {
        let Some(way) = locked(plan).rows.front().map(|row| row.course.way) else { return };
        let release = release(way, wanted);
        match boot(release, way).await {
            Ok(lab) => use_up(&lab, release, way, plan).await,
            Err(error) => {
                // Without a node, the row ends wrong: else this could go on for ever.
                let row = locked(plan).rows.pop_front();
                row.into_iter().for_each(|row| note(plan, row, release, &error));
            }
        }
    }
}

async fn use_up(lab: &Lab, release: Release, way: Way, plan: &Mutex<Plan>) {
    for _ in 0..CYCLES {
        let next = locked(plan).rows.iter().find(|row| row.course.way == way).map(Row::loses);
        let good = match next {
            None => false,
            Some(true) => lost(lab, release, plan).await,
            Some(false) => cycle(lab, release, way, plan).await,
        };
        if !good {
            return;
        }
    }
}

/// One after the other, each with the updates that it needs.
async fn lost(lab: &Lab, release: Release, plan: &Mutex<Plan>) -> bool {
    let row = take(plan, Row::loses);
    let Some(row) = row else { return true };
    match lost::run(lab, &row).await {
        Ok(()) => right(plan, &row),
        Err(ref error) => {
            note(plan, row, release, error);
            return false;
        }
    }
    true
}

/// An update and its rollback, each part with a row if there is one left. Whether the node is still good. A
/// rollback that fell back is done again; a finalize that did has nothing to roll back.
async fn cycle(lab: &Lab, release: Release, way: Way, plan: &Mutex<Plan>) -> bool {
    let id = Uuid::new_v4();
    let mut parts = VecDeque::from(Part::ALL);
    let mut undisturbed = true;
    while let Some(part) = parts.pop_front() {
        let row = next(plan, way, part, undisturbed);
        undisturbed &= row.stop.is_none();
        match part::run(lab, id, &row).await {
            Ok(ended) => {
                match ended.missed {
                    None => right(plan, &row),
                    Some(_) => again(plan, row, release),
                }
                match (ended.fell_back, part) {
                    (true, Part::Finalize) => return true,
                    (true, _) => parts.push_back(part),
                    (false, _) => {}
                }
            }
            Err(error) => {
                note(plan, row, release, &error);
                return false;
            }
        }
    }
    true
}

/// The next row of this part, or else the part alone.
fn next(plan: &Mutex<Plan>, way: Way, part: Part, undisturbed: bool) -> Row {
    let fits = |it: &Row| {
        !it.loses()
            && (it.course.way, it.course.part) == (way, part)
            && (undisturbed || !it.clears_what_is_left())
    };
    let alone = Row { course: Course { way, part, lead: None }, stop: None };
    take(plan, fits).unwrap_or(alone)
}

fn take(plan: &Mutex<Plan>, fits: impl Fn(&Row) -> bool) -> Option<Row> {
    let rows = &mut locked(plan).rows;
    let found = rows.iter().position(fits);
    found.and_then(|at| rows.remove(at))
}

/// It went well, but by another way.
fn again(plan: &Mutex<Plan>, row: Row, release: Release) {
    let times = {
        let missed = &mut locked(plan).missed;
        missed.push(row.clone());
        missed.iter().filter(|it| **it == row).count()
    };
    if times < TRIES {
        locked(plan).rows.push_back(row);
    } else {
        note(plan, row, release, &anyhow!("in {times} tries it was never stopped"));
    }
}

fn right(plan: &Mutex<Plan>, row: &Row) {
    let plan = &mut locked(plan);
    plan.ends.right += usize::from(row.stop.is_some());
    if row.stop.is_some() && plan.rows.len().is_multiple_of(SAID_EVERY) {
        eprintln!("{} stops left", plan.rows.len());
    }
}

fn note(plan: &Mutex<Plan>, row: Row, release: Release, error: &anyhow::Error) {
    let why = format!("{error:#}");
    eprintln!("wrong on {}: {row}\n{why}\n", release.name());
    locked(plan).ends.wrong.push(Wrong { row, release, why });
}
