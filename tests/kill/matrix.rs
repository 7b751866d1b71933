//! The whole of it: recorded, not written down, so that no step can be without a row.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use trident_acl_agent::steps::{Kind, Step};
use trident_lab::lab::{Lab, Mode, SOON, Setup};
use trident_lab::nebraska::Cookies;
use trident_lab::node::Release;
use trident_lab::stops::Side;
use uuid::Uuid;

use super::booted::eventually;
use super::part::{self, WATCHER};
use super::row::{Action, Course, Key, Part, Row, Stop, Way};

/// The build that stops.
pub(crate) const PROGRAM: &str = "target/stop-points/trident-acl-agent";
/// So that a test need not wait for what a killed process waits for.
const QUICK: [(&str, &str); 4] = [
    ("trident-acl-agent.service", "[Service]\nRestartSec=100ms\n"),
    ("trident-acl-agent-commit.service", "[Service]\nRestartSec=500ms\n"),
    (
        "trident-acl-agent-report.timer",
        "[Timer]\nOnUnitInactiveSec=5s\nRandomizedDelaySec=0\nAccuracySec=100ms\n",
    ),
    (
        "trident-acl-agent-reconcile.timer",
        "[Timer]\nOnBootSec=1s\nOnUnitInactiveSec=1s\nRandomizedDelaySec=0\nAccuracySec=100ms\n",
    ),
];

/// What is passed in one course, each time that it is taken.
pub(crate) type Recorded = (Course, Vec<Key>);

/// A node at rest, with the build that stops.
pub(crate) async fn boot(release: Release, way: Way) -> Result<Lab> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(PROGRAM);
    ensure!(program.exists(), "{PROGRAM} is not built: make stops");
    let setup = Setup::new(release, program).setting("ORCHESTRATION_COOKIE_ENABLED", "true");
    let setup = if way == Way::Passes { setup.mode(Mode::Reconcile) } else { setup };
    let quick = |setup: Setup, (unit, text): (&str, &str)| {
        setup.file(&format!("/etc/systemd/system/{unit}.d/50-quick.conf"), text)
    };
    let lab = QUICK.into_iter().fold(setup, quick).boot().await?;
    lab.nebraska.set_cookies(Cookies::WhenMissing);
    if way != Way::Passes {
        lab.kube.wait_for_watches(1, SOON).await?;
        eventually("the watcher is idle", || async {
            Ok(lab.node.show(WATCHER, "StatusText").await? == "idle; watching Node node-1")
        })
        .await?;
    }
    Ok(lab)
}

/// What there is to record, beside the good way of each part: what leads to steps that it does not take.
fn courses(way: Way) -> Vec<[Course; 3]> {
    let armed = |who: &str, of: &str| Key {
        who: who.to_owned(),
        step: Step::ServicingAnswer.name(),
        of: of.to_owned(),
        nth: 1,
        side: Side::After,
    };
    let finalized = || armed("finalize", "finalizing the update");
    let undone = || armed("rollback", "finalizing the rollback");
    let after = |action| [(finalized(), action), (undone(), action)];
    let leads = match way {
        Way::Watched => vec![None, Some(after(Action::Kill)), Some(after(Action::Power))],
        Way::WatcherFirst | Way::Passes | Way::Held => vec![None],
    };
    let course = |part, lead: Option<(Key, Action)>| {
        let lead = lead.map(|(key, action)| Stop { key, action });
        Course { way, part, lead }
    };
    let cycle = |leads: Option<[(Key, Action); 2]>| match leads {
        None => Part::ALL.map(|part| course(part, None)),
        Some([update, rollback]) => [
            course(Part::Stage, None),
            course(Part::Finalize, Some(update)),
            course(Part::Rollback, Some(rollback)),
        ],
    };
    leads.into_iter().map(cycle).collect()
}

/// Takes each course so often, and keeps what is passed every time: what another run does not pass, such as a
/// reconnection during a shutdown, is no row.
pub(crate) async fn record(way: Way, times: usize) -> Result<Vec<Recorded>> {
    let lab = boot(release(way, Release::Bookworm), way).await?;
    let mut found: Vec<Recorded> = Vec::new();
    for cycle in courses(way) {
        for _ in 0..times {
            let id = Uuid::new_v4();
            for course in &cycle {
                let row = Row { course: course.clone(), stop: None };
                let ended = part::run(&lab, id, &row).await.with_context(|| row.to_string())?;
                ensure!(ended.missed.is_none(), "{row}: it was never stopped");
                note(&mut found, course, ended.passed);
            }
        }
    }
    Ok(found)
}

fn note(found: &mut Vec<Recorded>, course: &Course, passed: Vec<Key>) {
    match found.iter_mut().find(|(it, _)| it == course) {
        None => found.push((course.clone(), passed)),
        Some((_, known)) => {
            let passed: HashSet<_> = passed.into_iter().collect();
            known.retain(|key| passed.contains(key));
        }
    }
}

/// Where this way can be gone.
pub(crate) fn release(way: Way, wanted: Release) -> Release {
    if way == Way::Held { Release::Trixie } else { wanted }
}

/// Every stop at every point that is not a row of the good way already.
pub(crate) fn rows(recorded: &[Recorded]) -> Vec<Row> {
    let good = |course: &Course| course.way == Way::Watched && course.lead.is_none();
    let known: HashSet<_> = recorded
        .iter()
        .filter(|(course, _)| good(course))
        .flat_map(|(course, keys)| keys.iter().map(move |key| (course.part, key)))
        .collect();
    let is_row = |course: &Course, key: &Key| match (course.way, &course.lead) {
        (Way::Watched, None) => true,
        // The process that goes on where another one was stopped.
        (_, Some(lead)) if lead.key.who == key.who => true,
        (Way::Passes, _) => is_of_a_pass(key),
        (Way::Watched | Way::WatcherFirst | Way::Held, _) => !known.contains(&(course.part, key)),
    };
    let mut rows = Vec::new();
    for (course, keys) in recorded {
        for key in keys.iter().filter(|key| is_row(course, key)) {
            rows.extend(Action::STOPS.map(|action| {
                let stop = Some(Stop { key: key.clone(), action });
                Row { course: course.clone(), stop }
            }));
        }
    }
    rows
}

/// A pass is a watcher that ends: of what the two have in common, one point of each write is enough.
fn is_of_a_pass(key: &Key) -> bool {
    let one_of_a_write = !key.step.starts_with("file.") && !key.step.starts_with("directory.");
    let export = key.of.starts_with("environment.json");
    key.who.starts_with("reconcile") && !export && (one_of_a_write || key.step == "file.rename")
}

/// The steps that are declared and have no row, and the other way round.
pub(crate) fn without_a_row(recorded: &[Recorded]) -> Vec<&'static str> {
    let passed: HashSet<_> = recorded.iter().flat_map(|(_, keys)| keys).map(|it| it.step).collect();
    let apart = |step: &Step| step.kind() == Kind::Apart;
    let wrong = |step: &&Step| passed.contains(step.name()) == apart(step);
    Step::ALL.iter().filter(wrong).map(|step| step.name()).collect()
}

/// One row of each kind of effect and each kind of stop, from here and there.
pub(crate) fn spread(rows: &[Row]) -> Vec<Row> {
    let effects = Step::ALL.iter().filter(|step| step.kind() == Kind::Effect);
    let kinds = effects.flat_map(|step| Action::STOPS.map(|action| (step.name(), action)));
    let of_kind = |step, action| {
        let fits = move |stop: &Stop| stop.key.step == step && stop.action == action;
        rows.iter().filter(move |row| row.stop.as_ref().is_some_and(fits)).collect::<Vec<_>>()
    };
    let picked = kinds.enumerate().filter_map(|(number, (step, action))| {
        let fitting = of_kind(step, action);
        // Of each kind another place: a prime spreads them.
        fitting.get((number * 7) % fitting.len().max(1)).map(|row| Row::clone(row))
    });
    picked.collect()
}
