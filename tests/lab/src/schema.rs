//! The product's own JSON Schemas, in a real validator, and what they cannot say.

use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Result, ensure};
use jsonschema::Validator;
use serde_json::Value;
use url::Url;

/// The names of the schemas' files.
pub const REQUEST: &str = "update-request-1.0.json";
pub const STATUS: &str = "update-status-1.0.json";

static REQUESTS: LazyLock<Validator> = LazyLock::new(|| validator(&schema(REQUEST)));
static STATUSES: LazyLock<Validator> = LazyLock::new(|| validator(&schema(STATUS)));

/// The schema as it is shipped. Panics if it is not there.
pub fn schema(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas").join(name);
    let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Panics if it is no schema.
pub fn validator(schema: &Value) -> Validator {
    jsonschema::draft202012::new(schema).unwrap_or_else(|e| panic!("no schema: {e}"))
}

/// Checks one status as it stands in an annotation.
pub fn check_status(status: &Value) -> Result<()> {
    let problems: Vec<_> = STATUSES.iter_errors(status).map(|it| it.to_string()).collect();
    ensure!(problems.is_empty(), "{status} breaks its schema: {}", problems.join("; "));
    let message = status["message"].as_str().unwrap_or_default();
    // A schema counts characters.
    ensure!(message.len() <= 2048, "a message of {} bytes: {status}", message.len());
    Ok(())
}

/// What the schema says of a request annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// No request.
    Invalid,
    /// A request, for all that a schema can say; the agent refuses it for [`beyond`] reasons.
    ValidButForm,
    /// A request.
    Valid,
}

/// Judges the value of a request annotation.
pub fn judge(text: &str) -> Judgement {
    match serde_json::from_str::<Value>(text) {
        Ok(request) if REQUESTS.is_valid(&request) => match beyond(&request, text) {
            true => Judgement::ValidButForm,
            false => Judgement::Valid,
        },
        Ok(_) | Err(_) => Judgement::Invalid,
    }
}

/// What a schema cannot say of a request's form, all of it. There the agent is the stricter one:
/// lengths are in characters there and in bytes here, a pattern is no URL parser, and of a key that stands
/// there twice a validator sees one.
fn beyond(request: &Value, text: &str) -> bool {
    let value = |name: &str| request.get(name).and_then(Value::as_str).unwrap_or_default();
    let lines = ["targetVersion", "appId", "track"];
    let wide = lines.into_iter().any(|name| value(name).len() > 256);
    let url = value("server");
    let parsed = Url::parse(url);
    let host = |url: &Url| url.host_str().is_some_and(|host| !host.is_empty());
    let server = url.len() <= 2048
        && parsed.is_ok_and(|url| host(&url) && url.as_str().len() <= 2048)
        && !url.chars().any(char::is_control);
    wide || (request.get("server").is_some() && !server) || has_a_key_twice(text)
}

fn has_a_key_twice(text: &str) -> bool {
    struct Keys(Vec<String>);
    impl<'de> serde::Deserialize<'de> for Keys {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            struct Members;
            impl<'de> serde::de::Visitor<'de> for Members {
                type Value = Keys;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: serde::de::MapAccess<'de>>(
                    self,
                    mut map: A,
                ) -> Result<Keys, A::Error> {
                    let mut keys = Vec::new();
                    while let Some((key, _)) = map.next_entry::<String, serde::de::IgnoredAny>()? {
                        keys.push(key);
                    }
                    Ok(Keys(keys))
                }
            }
            from.deserialize_map(Members)
        }
    }
    let mut keys = serde_json::from_str::<Keys>(text).map(|keys| keys.0).unwrap_or_default();
    let all = keys.len();
    keys.sort();
    keys.dedup();
    keys.len() < all
}
