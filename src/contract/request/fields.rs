//! A JSON object as a list of members, so that a key that stands there twice is seen. Of values other than
//! strings only that they are there: however large or deep, nothing of them is kept.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object, in order.
pub(super) struct Fields(Vec<(String, Field)>);

enum Field {
    Text(String),
    NoText,
    Other,
}

/// What was found under a name.
pub(super) enum Found<'a> {
    Absent,
    Text(&'a str),
    /// A string that is no Unicode text.
    NoText,
    /// Another JSON type.
    Other,
    Twice,
}

impl Fields {
    pub(super) fn get(&self, name: &str) -> Found<'_> {
        let mut values = self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value);
        match (values.next(), values.next()) {
            (None, _) => Found::Absent,
            (Some(Field::Text(text)), None) => Found::Text(text),
            (Some(Field::NoText), None) => Found::NoText,
            (Some(Field::Other), None) => Found::Other,
            (Some(_), Some(_)) => Found::Twice,
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Fields(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

impl<'de> Deserialize<'de> for Field {
    /// Read as it stands there: a number that no type holds, or half of a surrogate pair, makes one member
    /// unreadable and not all of them.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        Ok(match serde_json::from_str(raw) {
            Ok(text) => Self::Text(text),
            Err(_) if raw.starts_with('"') => Self::NoText,
            Err(_) => Self::Other,
        })
    }
}
