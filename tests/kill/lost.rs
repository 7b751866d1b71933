//! The state file is lost at each point at which it, or the world, has just changed.

use anyhow::{Context, Result, bail, ensure};
use trident_lab::lab::{Lab, OLD};
use trident_lab::stops::Side;
use uuid::Uuid;

use super::matrix::Recorded;
use super::part;
use super::row::{Action, Course, Key, Part, Row, Stop, Way};

/// One row for each change on the good way.
pub(crate) fn rows(recorded: &[Recorded]) -> Vec<Row> {
    let good = recorded.iter().filter(|(it, _)| it.way == Way::Watched && it.lead.is_none());
    let changes = good.flat_map(|(course, keys)| {
        keys.iter().filter(|key| is_change(key)).map(move |key| (course, key))
    });
    let row = |(course, key): (&Course, &Key)| {
        let stop = Some(Stop { key: key.clone(), action: Action::Lose });
        Row { course: course.clone(), stop }
    };
    changes.map(row).collect()
}

/// One of each part.
pub(crate) fn spread(recorded: &[Recorded]) -> Vec<Row> {
    let rows = rows(recorded);
    let one = |part: &Part| {
        let fitting: Vec<_> = rows.iter().filter(|row| row.course.part == *part).collect();
        fitting.get(fitting.len() / 2).map(|row| Row::clone(row))
    };
    Part::ALL.iter().filter_map(one).collect()
}

/// Of a write, the moment at which it is there; and nothing that only reads.
fn is_change(key: &Key) -> bool {
    let of_a_write = key.step.starts_with("file.") || key.step.starts_with("directory.");
    let record = key.step == "file.rename" && key.of == "state.json";
    let effect = !of_a_write
        && trident_acl_agent::steps::Step::ALL.iter().any(|step| {
            step.name() == key.step && step.kind() == trident_acl_agent::steps::Kind::Effect
        });
    key.side == Side::After && (record || effect)
}

/// The row on a node that runs the old version, and then what a person would do: whatever the loss has left
/// undone is done anew, and ends well.
pub(crate) async fn run(lab: &Lab, row: &Row) -> Result<()> {
    let (id, part) = (Uuid::new_v4(), row.course.part);
    for before in Part::ALL.into_iter().take_while(|it| *it != part) {
        part::run(lab, id, &alone(before)).await.context("before it")?;
    }
    let missed = part::run(lab, id, row).await?.missed;
    ensure!(missed.is_none(), "it was never stopped");
    let id = Uuid::new_v4();
    let again = match lab.version().await? == OLD {
        true => &Part::ALL[..],
        false => &Part::ALL[2..],
    };
    for after in again {
        part::run(lab, id, &alone(*after)).await.with_context(|| format!("{after} after it"))?;
    }
    if lab.version().await? != OLD {
        bail!("it cannot be rolled back");
    }
    Ok(())
}

fn alone(part: Part) -> Row {
    Row { course: Course { way: Way::Watched, part, lead: None }, stop: None }
}
