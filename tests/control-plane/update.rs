//! The main job with kubelet's identity.

use anyhow::Result;

use super::{lab, setup};
use crate::booted::scenario;

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_update_and_a_rollback() -> Result<()> {
    let lab = lab(setup()).await?;
    scenario::an_update_from_stage_to_commit(&lab).await?;
    scenario::a_rollback(&lab).await
}
