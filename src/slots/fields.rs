//! The fields of an `extension-release` file, as a record keeps them.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// More fields, or longer values, than any file of this kind has.
const MAX_FIELDS: usize = 64;
const MAX_VALUE: usize = 1024;

/// Upper-case names with their values; none stands there twice.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Fields(BTreeMap<String, String>);

impl Fields {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// # Errors
    /// Why it cannot be kept.
    pub(super) fn add(&mut self, name: String, value: String) -> Result<(), &'static str> {
        let upper = |it: u8| it.is_ascii_uppercase() || it.is_ascii_digit() || it == b'_';
        if name.is_empty() || name.len() > MAX_FIELDS || !name.bytes().all(upper) {
            return Err("a field's name is not upper-case letters, digits and `_`");
        }
        if value.len() > MAX_VALUE || value.chars().any(char::is_control) {
            return Err("a field's value is too long or has control characters");
        }
        if self.0.len() >= MAX_FIELDS {
            return Err("there are too many fields");
        }
        match self.0.insert(name, value) {
            None => Ok(()),
            Some(_) => Err("a field stands there twice"),
        }
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some((name, value)) = map.next_entry()? {
                    fields.add(name, value).map_err(A::Error::custom)?;
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(Members)
    }
}
