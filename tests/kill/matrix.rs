//! The whole of it: recorded, not written down, so that no step can be without a row.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use anyhow::{Context, Result, ensure};
use trident_lab::lab::{Lab, SOON, Setup};
use trident_lab::nebraska::Cookies;
use trident_lab::node::Release;
use uuid::Uuid;

use super::booted::eventually;
use super::part::{self, WATCHER};
use super::row::{Action, Key, Part, Row, Stop};

/// The build that stops.
pub(crate) const PROGRAM: &str = "target/stop-points/trident-acl-agent";
/// So that a test need not wait for what a killed process waits for.
const QUICK: [(&str, &str); 3] = [
    ("trident-acl-agent.service", "[Service]\nRestartSec=100ms\n"),
    ("trident-acl-agent-commit.service", "[Service]\nRestartSec=500ms\n"),
    (
        "trident-acl-agent-report.timer",
        "[Timer]\nOnUnitInactiveSec=5s\nRandomizedDelaySec=0\nAccuracySec=100ms\n",
    ),
];
/// Updates and rollbacks of one node, before there is a fresh one: what it has published is checked anew
/// each time.
const CYCLES: usize = 10;
/// A node waits most of the time.
const NODES: usize = 4;

/// A node at rest, with the build that stops.
pub(crate) async fn boot(release: Release) -> Result<Lab> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(PROGRAM);
    ensure!(program.exists(), "build {PROGRAM} first: make stops");
    let setup = Setup::new(release, program).setting("ORCHESTRATION_COOKIE_ENABLED", "true");
    let quick = |setup: Setup, (unit, text): (&str, &str)| {
        setup.file(&format!("/etc/systemd/system/{unit}.d/50-quick.conf"), text)
    };
    let lab = QUICK.into_iter().fold(setup, quick).boot().await?;
    lab.nebraska.set_cookies(Cookies::WhenMissing);
    lab.kube.wait_for_watches(1, SOON).await?;
    eventually("the watcher is idle", || async {
        Ok(lab.node.show(WATCHER, "StatusText").await? == "idle; watching Node node-1")
    })
    .await?;
    Ok(lab)
}

/// What is passed in a part that goes well, each time that it does.
pub(crate) async fn record(lab: &Lab) -> Result<Vec<(Part, Vec<Key>)>> {
    let mut found: Vec<(Part, Vec<Key>)> = Vec::new();
    for _ in 0..3 {
        let id = Uuid::new_v4();
        for part in Part::ALL {
            let ended = part::run(lab, part, id, &[]).await.with_context(|| part.to_string())?;
            let passed = ended.passed;
            match found.iter_mut().find(|(it, _)| *it == part) {
                None => found.push((part, passed)),
                // What another run does not pass, such as a reconnection in a shutdown, is no row.
                Some((_, known)) => {
                    let passed: HashSet<_> = passed.into_iter().collect();
                    known.retain(|key| passed.contains(key));
                }
            }
        }
    }
    Ok(found)
}

/// Every stop at every point.
pub(crate) fn rows(recorded: &[(Part, Vec<Key>)]) -> Vec<Row> {
    let points = recorded.iter().flat_map(|(part, keys)| keys.iter().map(move |key| (*part, key)));
    let stops = points.flat_map(|point| Action::ALL.map(|action| (point, action)));
    stops
        .map(|((part, key), action)| Row { part, stops: vec![Stop { key: key.clone(), action }] })
        .collect()
}

/// How the rows ended.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) right: usize,
    pub(crate) wrong: Vec<(Row, Release, String)>,
}

/// Runs the rows on several nodes of both releases at once.
pub(crate) async fn run(rows: Vec<Row>) -> Ends {
    let plan = Mutex::new((VecDeque::from(rows), Ends::default()));
    let nodes = (0..NODES).map(|node| work(Release::ALL[node % 2], &plan));
    futures_util::future::join_all(nodes).await;
    plan.into_inner().expect("no panic under the lock").1
}

type Plan = Mutex<(VecDeque<Row>, Ends)>;

fn locked(plan: &Plan) -> MutexGuard<'_, (VecDeque<Row>, Ends)> {
    plan.lock().expect("no panic under the lock")
}

/// One node after the other, until no row is left.
async fn work(release: Release, plan: &Plan) {
    while !locked(plan).0.is_empty() {
        let lab = match boot(release).await {
            Ok(lab) => lab,
            Err(error) => {
                eprintln!("cannot boot: {error:#}");
                continue;
            }
        };
        for _ in 0..CYCLES {
            if locked(plan).0.is_empty() || !cycle(&lab, release, plan).await {
                break;
            }
        }
    }
}

/// An update and its rollback, each part with a row if there is one left. Whether the node is still good. A
/// rollback that fell back is done again; a finalize that did has nothing to roll back.
async fn cycle(lab: &Lab, release: Release, plan: &Plan) -> bool {
    let id = Uuid::new_v4();
    let mut parts = VecDeque::from(Part::ALL);
    while let Some(part) = parts.pop_front() {
        let row = {
            let rows = &mut locked(plan).0;
            let next = rows.iter().position(|row| row.part == part);
            next.and_then(|next| rows.remove(next))
        };
        let stops = row.as_ref().map_or(&[][..], |row| &row.stops);
        let ended = part::run(lab, part, id, stops).await;
        let ends = &mut locked(plan).1;
        match (ended, row) {
            (Ok(ended), row) => {
                ends.right += usize::from(row.is_some());
                match (ended.fell_back, part) {
                    (true, Part::Finalize) => return true,
                    (true, _) => parts.push_back(part),
                    (false, _) => {}
                }
            }
            (Err(error), row) => {
                let row = row.unwrap_or(Row { part, stops: Vec::new() });
                eprintln!("wrong on {}: {row}\n{error:#}\n", release.name());
                ends.wrong.push((row, release, format!("{error:#}")));
                return false;
            }
        }
    }
    true
}
