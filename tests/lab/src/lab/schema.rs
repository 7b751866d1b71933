//! The product's own JSON Schemas, in a real validator.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use jsonschema::Validator;
use serde_json::Value;

fn validator(name: &str) -> Result<Validator> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas").join(name);
    let schema: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    jsonschema::draft202012::new(&schema).with_context(|| format!("{name} is no schema"))
}

/// Checks one published status.
pub(super) fn check_status(status: &Value) -> Result<()> {
    static VALIDATOR: OnceLock<Validator> = OnceLock::new();
    if VALIDATOR.get().is_none() {
        let _ = VALIDATOR.set(validator("update-status-1.0.json")?);
    }
    let validator = VALIDATOR.get().context("set above")?;
    let problems: Vec<_> =
        validator.iter_errors(status).map(|problem| problem.to_string()).collect();
    ensure!(problems.is_empty(), "{status} breaks its schema: {}", problems.join("; "));
    Ok(())
}
