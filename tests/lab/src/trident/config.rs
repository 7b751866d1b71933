//! The host configuration of a stage. JSON is YAML, and what the product writes: other YAML is not
//! understood here.

use serde_json::Value;

use super::proto::v1::{HostConfiguration, TridentErrorKind};
use super::script::Fault;

#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) url: String,
    pub(super) sha384: String,
}

pub(super) fn parse(config: Option<&HostConfiguration>) -> Result<Wanted, Fault> {
    let config = config.ok_or_else(|| invalid("there is no host configuration"))?;
    let document: Value = serde_json::from_str(&config.config)
        .map_err(|error| invalid(&format!("the host configuration is not JSON: {error}")))?;
    let text = |key: &str| -> Result<String, Fault> {
        let value = document.pointer(&format!("/image/{key}")).and_then(Value::as_str);
        Ok(value.ok_or_else(|| invalid(&format!("no image.{key}")))?.to_owned())
    };
    let wanted = Wanted { url: text("url")?, sha384: text("sha384")? };
    if wanted.sha384.len() != 96 || !wanted.sha384.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(invalid("image.sha384 is not a SHA-384 in hexadecimal"));
    }
    Ok(wanted)
}

fn invalid(message: &str) -> Fault {
    Fault::new(TridentErrorKind::InvalidInputError, "parse-host-configuration", message)
}
