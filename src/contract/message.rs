use std::fmt;

use serde::{Deserialize, Serialize};

/// Most bytes of UTF-8 in a status message.
const MAX_BYTES: usize = 2048;
/// Marks a message that was cut.
const CUT: &str = " [cut]";

/// The text of a status: one line, at most 2048 bytes, cut on a character boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Message(String);

impl Message {
    /// Control characters become spaces: a message ends up in logs and on terminals.
    pub fn new(text: &str) -> Self {
        let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if line.len() > MAX_BYTES {
            line.truncate(line.floor_char_boundary(MAX_BYTES - CUT.len()));
            line.push_str(CUT);
        }
        Self(line)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl From<Message> for String {
    fn from(message: Message) -> Self {
        message.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn never_too_long_and_a_prefix_of_what_was_said(text in "\\PC{0,3000}") {
            let cut = Message::new(&text);
            prop_assert!(cut.as_str().len() <= MAX_BYTES);
            let kept = cut.as_str().strip_suffix(CUT).unwrap_or(cut.as_str());
            prop_assert!(text.starts_with(kept));
        }
    }

    #[test]
    fn cut_between_characters() {
        let cut = Message::new(&"\u{20ac}".repeat(1000));
        assert!(cut.as_str().ends_with(CUT));
        assert!(cut.as_str().len() > MAX_BYTES - 10);
    }

    #[test]
    fn one_line() {
        assert_eq!(Message::new("a\nb\u{1b}[31m").as_str(), "a b [31m");
    }
}
