//! Stopped anywhere: the matrix of every step that the program takes, and each way to stop it there.
#![expect(clippy::print_stderr, reason = "the figures and the rows are what is looked at")]

mod booted;
#[path = "kill/judge.rs"]
mod judge;
#[path = "kill/matrix.rs"]
mod matrix;
#[path = "kill/part.rs"]
mod part;
#[path = "kill/row.rs"]
mod row;
#[path = "kill/switch.rs"]
mod switch;

use anyhow::Result;
use trident_lab::node::Release;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "half an hour: make test-kill"]
async fn the_whole_matrix() -> Result<()> {
    let begun = std::time::Instant::now();
    let lab = matrix::boot(Release::Bookworm).await?;
    let rows = matrix::rows(&matrix::record(&lab).await?);
    drop(lab);
    let only = std::env::var("ROW").unwrap_or_default();
    let rows: Vec<_> = rows.into_iter().filter(|row| row.to_string().contains(&only)).collect();
    let stops = rows.len();
    eprintln!("{stops} rows");
    let ends = matrix::run(rows).await;
    for (row, release, error) in &ends.wrong {
        let first = error.lines().next().unwrap_or_default();
        eprintln!("wrong on {}: {row}: {first}", release.name());
    }
    eprintln!(
        "{stops} stops, {} right, {} wrong in {:?}",
        ends.right,
        ends.wrong.len(),
        begun.elapsed()
    );
    anyhow::ensure!(ends.wrong.is_empty());
    Ok(())
}
