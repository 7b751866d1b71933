use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A UUID in its 8-4-4-4-12 form. Compared by value, printed as it was given, so that an orchestrator
/// that compares text finds its own.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Id {
    uuid: Uuid,
    text: String,
}

impl Id {
    /// The nil UUID: stands in a status for an id that could not be read.
    pub fn nil() -> Self {
        Self { uuid: Uuid::nil(), text: Uuid::nil().to_string() }
    }

    /// Accepts the hyphenated form only, in either case.
    pub fn parse(text: &str) -> Option<Self> {
        let uuid = Uuid::try_parse(text).ok()?;
        let hyphenated = uuid.to_string();
        text.eq_ignore_ascii_case(&hyphenated).then(|| Self { uuid, text: text.to_owned() })
    }

    /// Lower-case: the form for unit names and comparisons outside this process.
    pub fn canonical(&self) -> String {
        self.uuid.to_string()
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.uuid == other.uuid
    }
}

impl Eq for Id {}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Id {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| "not a UUID".to_owned())
    }
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.text
    }
}
