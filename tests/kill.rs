//! Stopped anywhere: the matrix of every step that the program takes, and each way to stop it there.
#![expect(clippy::print_stderr, reason = "the figures and the rows are what is looked at")]

mod booted;
#[path = "kill/judge.rs"]
mod judge;
#[path = "kill/lost.rs"]
mod lost;
#[path = "kill/matrix.rs"]
mod matrix;
#[path = "kill/part.rs"]
mod part;
#[path = "kill/row.rs"]
mod row;
#[path = "kill/run.rs"]
mod run;
#[path = "kill/switch.rs"]
mod switch;

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use matrix::{PROGRAM, Recorded, record, rows, spread, without_a_row};
use row::{Row, Way};
use trident_acl_agent::steps::Step;

/// Which rows are run: those whose names hold this.
const ONLY: &str = "ROWS";

async fn recorded(times: usize) -> Result<Vec<Recorded>> {
    let ways =
        [Way::Watched, Way::WatcherFirst, Way::Held, Way::Passes].map(|way| record(way, times));
    Ok(futures_util::future::try_join_all(ways).await?.concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_has_a_row_and_a_spread_of_them_ends_right() -> Result<()> {
    let recorded = recorded(1).await?;
    let wrong = without_a_row(&recorded);
    ensure!(wrong.is_empty(), "declared and in no row, or apart and in one: {wrong:?}");
    let good: Vec<_> = recorded.into_iter().filter(|(it, _)| it.way == Way::Watched).collect();
    all_end_right([spread(&rows(&good)), lost::spread(&good)].concat()).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "an hour: make test-kill"]
async fn the_whole_matrix_ends_right() -> Result<()> {
    let only = std::env::var(ONLY).unwrap_or_default();
    let recorded = recorded(3).await?;
    let rows = rows(&recorded).into_iter().chain(lost::rows(&recorded));
    all_end_right(rows.filter(|row| row.to_string().contains(&only)).collect()).await
}

async fn all_end_right(rows: Vec<Row>) -> Result<()> {
    let (begun, stops) = (Instant::now(), rows.len());
    let mut points: Vec<_> =
        rows.iter().filter_map(|row| Some((&row.course, &row.stop.as_ref()?.key))).collect();
    points.dedup();
    let steps = points.len();
    eprintln!("{steps} steps, {stops} stops");
    let ends = run::run(rows).await;
    for wrong in &ends.wrong {
        let why = wrong.why.lines().next().unwrap_or_default();
        eprintln!("wrong on {}: {}: {why}", wrong.release.name(), wrong.row);
        eprintln!("  alone: make test-kill {ONLY}='{}'", wrong.row);
    }
    eprintln!("in {:.0} s", begun.elapsed().as_secs_f32());
    let (right, wrong) = (ends.right, ends.wrong.len());
    eprintln!("{steps} steps, {stops} stops, {right} ended right, {wrong} wrong");
    ensure!(wrong == 0 && right == stops, "{wrong} of {stops} stops ended wrong");
    Ok(())
}

/// The switch's own words are in the test build, and not in what ships.
#[test]
fn the_switch_is_not_shipped() -> Result<()> {
    let read = |path: &str| std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
    let (test, shipped) = (read(PROGRAM)?, read("target/release/trident-acl-agent")?);
    let holds =
        |program: &[u8], word: &str| program.windows(word.len()).any(|it| it == word.as_bytes());
    for word in Step::ALL.iter().map(|step| step.name()).chain(["stop-points.sock"]) {
        ensure!(holds(&test, word), "{word} is not in the test build: this test can see nothing");
        ensure!(!holds(&shipped, word), "{word} is in what ships");
    }
    Ok(())
}
