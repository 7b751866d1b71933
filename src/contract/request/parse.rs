use thiserror::Error;
use url::Url;

use super::fields::{Fields, Found};
use super::{Operation, Request, Update, Work};
use crate::contract::message::breaks_a_line;
use crate::contract::{Id, SCHEMA_VERSION};

/// Longest `targetVersion`, `appId` or `track`, in bytes: they travel in an XML attribute.
const MAX_TEXT: usize = 256;
/// Longest `server`, in bytes.
const MAX_URL: usize = 2048;

const SCHEMA: &str = "schemaVersion";
const NODE_UPDATE_ID: &str = "nodeUpdateId";
const OPERATION_ID: &str = "operationId";
const OPERATION: &str = "operation";
const TARGET_VERSION: &str = "targetVersion";
const SERVER: &str = "server";
const APP_ID: &str = "appId";
const TRACK: &str = "track";
pub(super) const KNOWN: [&str; 8] =
    [SCHEMA, NODE_UPDATE_ID, OPERATION_ID, OPERATION, TARGET_VERSION, SERVER, APP_ID, TRACK];

/// A request that breaks the contract, with what could be read of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Nil where unreadable.
    pub node_update_id: Id,
    /// Nil where unreadable.
    pub operation_id: Id,
    /// `Stage` where unreadable.
    pub operation: Operation,
    pub problem: Problem,
}

/// What is wrong, and where. Values are not repeated: a URL may hold credentials.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    #[error("the request is not a JSON object: {0}")]
    NotAnObject(String),
    #[error("`{0}` is missing")]
    Missing(&'static str),
    #[error("`{0}` stands there twice")]
    Twice(&'static str),
    #[error("`{0}` must be a string")]
    NotAString(&'static str),
    #[error("`{0}` holds half of a surrogate pair: it is no Unicode text")]
    NotText(&'static str),
    #[error("`{0}` must not be empty")]
    Empty(&'static str),
    #[error("`{0}` is longer than {1} bytes")]
    TooLong(&'static str, usize),
    #[error("`{0}` holds a control character or a line break")]
    Control(&'static str),
    #[error("`{0}` must be a UUID in its 8-4-4-4-12 form")]
    NotAUuid(&'static str),
    #[error("`schemaVersion` must be \"1.0\"")]
    SchemaVersion,
    #[error("`operation` must be stage, finalize or rollback")]
    Operation,
    #[error("`server` must be an https URL with a host")]
    Server,
    #[error("`targetVersion` must be absent for rollback: its target is the previous slot")]
    RollbackTarget,
    /// Its name where that is a word, else nothing: it may be anything.
    #[error(
        "unknown field {0}: only schemaVersion, nodeUpdateId, operationId, operation, targetVersion, server, appId and track are allowed"
    )]
    Unknown(String),
}

impl Request {
    /// Parses an annotation's value. Never panics, whatever the text.
    ///
    /// # Errors
    /// [`Broken`]: the first rule that the text breaks, and the ids where they can be read.
    pub fn parse(text: &str) -> Result<Self, Broken> {
        let fields: Fields = serde_json::from_str(text).map_err(|error| Broken {
            node_update_id: Id::nil(),
            operation_id: Id::nil(),
            operation: Operation::Stage,
            problem: Problem::NotAnObject(where_it_breaks(&error)),
        })?;
        check(&fields).map_err(|problem| Broken {
            node_update_id: id(&fields, NODE_UPDATE_ID).unwrap_or_else(|_| Id::nil()),
            operation_id: id(&fields, OPERATION_ID).unwrap_or_else(|_| Id::nil()),
            operation: operation(&fields).unwrap_or(Operation::Stage),
            problem,
        })
    }
}

/// serde_json's own text can quote the input; the place and the kind of error cannot.
fn where_it_breaks(error: &serde_json::Error) -> String {
    let kind = match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Data => "another JSON type",
        serde_json::error::Category::Io | serde_json::error::Category::Syntax => "not JSON",
    };
    format!("{kind} (line {}, column {})", error.line(), error.column())
}

fn check(fields: &Fields) -> Result<Request, Problem> {
    if text(fields, SCHEMA)? != SCHEMA_VERSION {
        return Err(Problem::SchemaVersion);
    }
    let node_update_id = id(fields, NODE_UPDATE_ID)?;
    let operation_id = id(fields, OPERATION_ID)?;
    let work = match operation(fields)? {
        Operation::Stage => Work::Stage(update(fields)?),
        Operation::Finalize => Work::Finalize(update(fields)?),
        Operation::Rollback => rollback(fields)?,
    };
    match fields.names().find(|name| !KNOWN.contains(name)) {
        Some(name) => Err(Problem::Unknown(shown(name))),
        None => Ok(Request { node_update_id, operation_id, work }),
    }
}

fn shown(name: &str) -> String {
    let word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    match word && (1..=64).contains(&name.len()) {
        true => format!("`{name}`"),
        false => "(no word)".to_owned(),
    }
}

fn operation(fields: &Fields) -> Result<Operation, Problem> {
    let name = text(fields, OPERATION)?;
    Operation::ALL.into_iter().find(|it| it.name() == name).ok_or(Problem::Operation)
}

fn update(fields: &Fields) -> Result<Update, Problem> {
    Ok(Update {
        target_version: line(fields, TARGET_VERSION)?.to_owned(),
        server: server(fields)?,
        app_id: line(fields, APP_ID)?.to_owned(),
        track: line(fields, TRACK)?.to_owned(),
    })
}

/// A rollback needs no server; one that is given is not used, but must not be nonsense either.
fn rollback(fields: &Fields) -> Result<Work, Problem> {
    if !matches!(fields.get(TARGET_VERSION), Found::Absent) {
        return Err(Problem::RollbackTarget);
    }
    for name in [APP_ID, TRACK] {
        if !matches!(fields.get(name), Found::Absent) {
            line(fields, name)?;
        }
    }
    if !matches!(fields.get(SERVER), Found::Absent) {
        server(fields)?;
    }
    Ok(Work::Rollback)
}

fn server(fields: &Fields) -> Result<Url, Problem> {
    let text = text(fields, SERVER)?;
    if text.len() > MAX_URL {
        return Err(Problem::TooLong(SERVER, MAX_URL));
    }
    let url = Url::parse(text).map_err(|_no_url| Problem::Server)?;
    // What is escaped grows, and the state file holds it as it is then.
    if url.as_str().len() > MAX_URL {
        return Err(Problem::TooLong(SERVER, MAX_URL));
    }
    let good = url.scheme() == "https" && url.host_str().is_some_and(|host| !host.is_empty());
    let plain = names_its_host(text) && !text.chars().any(char::is_control);
    if good && plain { Ok(url) } else { Err(Problem::Server) }
}

/// A URL parser repairs `https:host`, `https:///host` and blanks before them; the schema does not.
fn names_its_host(text: &str) -> bool {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    scheme.eq_ignore_ascii_case("https") && !rest.starts_with(['/', '?', '#', '\\', ' '])
}

fn id(fields: &Fields, name: &'static str) -> Result<Id, Problem> {
    Id::parse(text(fields, name)?).ok_or(Problem::NotAUuid(name))
}

/// A text that may stand in an XML attribute and a log field.
fn line<'a>(fields: &'a Fields, name: &'static str) -> Result<&'a str, Problem> {
    let value = text(fields, name)?;
    // As ECMAScript's blanks, by which the schema goes.
    if value.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}').is_empty() {
        Err(Problem::Empty(name))
    } else if value.len() > MAX_TEXT {
        Err(Problem::TooLong(name, MAX_TEXT))
    } else if value.chars().any(breaks_a_line) {
        Err(Problem::Control(name))
    } else {
        Ok(value)
    }
}

fn text<'a>(fields: &'a Fields, name: &'static str) -> Result<&'a str, Problem> {
    match fields.get(name) {
        Found::Absent => Err(Problem::Missing(name)),
        Found::Twice => Err(Problem::Twice(name)),
        Found::Text(text) => Ok(text),
        Found::NoText => Err(Problem::NotText(name)),
        Found::Other => Err(Problem::NotAString(name)),
    }
}
