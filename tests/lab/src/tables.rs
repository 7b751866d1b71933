//! Tables that several test targets share, so that they cannot disagree about a case.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::lab::Request;

/// One request annotation, and who takes it.
#[derive(Clone, Debug)]
pub struct RequestRow {
    pub name: String,
    pub text: String,
    /// The agent takes it.
    pub parser: bool,
    /// The JSON Schema does.
    pub schema: bool,
    /// The admission policy does.
    pub policy: bool,
}

/// As it stands in the file: a text, or what differs from a good request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    parser: bool,
    schema: bool,
    policy: bool,
    text: Option<String>,
    base: Option<String>,
    #[serde(default)]
    set: Map<String, Value>,
    #[serde(default)]
    remove: Vec<String>,
    /// So many bytes in a field.
    #[serde(default)]
    fill: Map<String, Value>,
    /// So many characters in all, with blanks at the end.
    #[serde(default)]
    pad: usize,
}

/// `tests/tables/update-requests.json`.
pub fn requests() -> Result<Vec<RequestRow>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tables/update-requests.json");
    let rows: Vec<Written> = serde_json::from_slice(&std::fs::read(path)?)?;
    rows.into_iter().map(Written::row).collect()
}

impl Written {
    fn row(self) -> Result<RequestRow> {
        let text = match &self.text {
            Some(text) => text.clone(),
            None => self.changed().with_context(|| self.name.clone())?,
        };
        let Self { name, parser, schema, policy, .. } = self;
        Ok(RequestRow { name, text, parser, schema, policy })
    }

    fn changed(&self) -> Result<String> {
        let id = "550e8400-e29b-41d4-a716-446655440000".parse()?;
        let request = match self.base.as_deref() {
            Some("stage") => Request::stage(id),
            Some("finalize") => Request::finalize(id),
            Some("rollback") => Request::rollback(id),
            other => anyhow::bail!("no such base: {other:?}"),
        };
        let mut request: Map<String, Value> = serde_json::from_str(&request.text())?;
        request.extend(self.set.clone());
        for field in &self.remove {
            request.remove(field).context("removed twice")?;
        }
        for (field, length) in &self.fill {
            let start = if field == "server" { "https://x/" } else { "" };
            let length = usize::try_from(length.as_u64().context("no length")?)?;
            request.insert(field.clone(), format!("{start:x<length$}").into());
        }
        Ok(format!("{:<1$}", Value::Object(request).to_string(), self.pad))
    }
}
