//! The words of the store: slot, kind, names, hashes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One half of an A/B host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Slot {
    A,
    B,
}

/// What an extension extends: `/usr` and `/opt`, or `/etc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Sysext,
    Confext,
}

/// How confexts reach `/etc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Lower directories of a writable overlay.
    #[default]
    Overlay,
    /// Links for systemd-confext, from systemd 256 on.
    Native,
    /// Not at all.
    None,
}

/// A text is none of the words that are allowed here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is not {expected}")]
pub struct Word {
    value: String,
    expected: &'static str,
}

impl Word {
    fn not(value: &str, expected: &'static str) -> Self {
        // An error is one line in a journal, whatever the text was.
        Self { value: value.chars().take(64).collect(), expected }
    }
}

impl Slot {
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    pub fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Slot {
    type Err = Word;

    fn from_str(text: &str) -> Result<Self, Word> {
        let found = Self::BOTH.into_iter().find(|slot| slot.name() == text);
        found.ok_or_else(|| Word::not(text, "a slot (a or b)"))
    }
}

impl Kind {
    pub const BOTH: [Self; 2] = [Self::Sysext, Self::Confext];

    pub fn name(self) -> &'static str {
        match self {
            Self::Sysext => "sysext",
            Self::Confext => "confext",
        }
    }

    /// The directory of its images within a slot.
    pub fn directory(self) -> &'static str {
        match self {
            Self::Sysext => "sysexts",
            Self::Confext => "confexts",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Strategy {
    type Err = Word;

    fn from_str(text: &str) -> Result<Self, Word> {
        match text {
            "overlay" => Ok(Self::Overlay),
            "native" => Ok(Self::Native),
            "none" => Ok(Self::None),
            _ => Err(Word::not(text, "a confext strategy (overlay, native or none)")),
        }
    }
}

/// The longest name or id.
const MAX_NAME: usize = 200;

/// The suffix of `extension-release.<name>`, and the stem of the image's file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(String);

/// `SYSEXT_ID` or `CONFEXT_ID`; with the kind it is an extension's identity. Spelled as a name is.
pub type Id = Name;

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The file name of the image.
    pub fn file_name(&self) -> String {
        format!("{self}.raw")
    }
}

/// Letters, digits and some signs, no leading dot: a whole component of a path, and nothing else.
pub(super) fn is_component(text: &str, most: usize) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+~@:".contains(&byte);
    (1..=most).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(allowed)
}

impl TryFrom<String> for Name {
    type Error = Word;

    fn try_from(text: String) -> Result<Self, Word> {
        if is_component(&text, MAX_NAME) { Ok(Self(text)) } else { Err(Word::not(&text, NAME)) }
    }
}

const NAME: &str = "a name (1 to 200 of letters, digits, `._-+~@:`, no leading dot)";

impl FromStr for Name {
    type Err = Word;

    fn from_str(text: &str) -> Result<Self, Word> {
        text.to_owned().try_into()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// 96 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Sha384(String);

impl Sha384 {
    /// Of a finished computation.
    pub fn of_digest(digest: &[u8]) -> Self {
        Self(hex(digest))
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

impl TryFrom<String> for Sha384 {
    type Error = Word;

    fn try_from(text: String) -> Result<Self, Word> {
        let expected = "a SHA-384 (96 lower-case hexadecimal digits)";
        if is_hex(&text, 96) { Ok(Self(text)) } else { Err(Word::not(&text, expected)) }
    }
}

impl FromStr for Sha384 {
    type Err = Word;

    fn from_str(text: &str) -> Result<Self, Word> {
        text.to_owned().try_into()
    }
}

impl fmt::Display for Sha384 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a source says of its bytes: `sha384:` or `sha256:` and lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Hash(String);

impl TryFrom<String> for Hash {
    type Error = Word;

    fn try_from(text: String) -> Result<Self, Word> {
        let good = match text.split_once(':') {
            Some(("sha384", digits)) => is_hex(digits, 96),
            Some(("sha256", digits)) => is_hex(digits, 64),
            _ => false,
        };
        if good {
            Ok(Self(text))
        } else {
            Err(Word::not(&text, "a hash (sha384:… or sha256:…)"))
        }
    }
}

impl From<&Sha384> for Hash {
    fn from(hash: &Sha384) -> Self {
        Self(format!("sha384:{hash}"))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
