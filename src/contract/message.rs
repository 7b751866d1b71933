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
    /// Control characters and line breaks become spaces: a message ends up in logs and on terminals.
    pub fn new(text: &str) -> Self {
        let mut line: String = text.chars().map(harmless).collect();
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

fn harmless(c: char) -> char {
    if breaks_a_line(c) { ' ' } else { c }
}

/// Control characters, and Unicode's own ends of a line and of a paragraph.
pub(super) fn breaks_a_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
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

    /// Characters of one width, which fill the room up to a few bytes before or behind its end.
    fn near_the_end() -> impl Strategy<Value = String> {
        let wide = ["a", "\u{e4}", "\u{20ac}", "\u{1f600}"];
        let text = (prop::sample::select(wide.to_vec()), MAX_BYTES - 40..MAX_BYTES + 40, ".{0,12}");
        text.prop_map(|(wide, bytes, rest)| {
            let start: String = rest.chars().filter(|c| c.len_utf8() != wide.len()).collect();
            start + &wide.repeat(bytes / wide.len()) + &rest
        })
    }

    /// Any characters at all, of each width.
    fn any_text() -> impl Strategy<Value = String> {
        let one = prop_oneof![
            any::<char>(),
            prop::char::range('\u{0}', '\u{ff}'),
            prop::char::range('\u{2000}', '\u{2100}'),
            prop::char::range('\u{1f000}', '\u{1ffff}'),
        ];
        prop::collection::vec(one, 0..1500).prop_map(String::from_iter)
    }

    proptest! {
        #[test]
        fn as_much_as_there_is_room_for_and_the_cut_is_marked(text in prop_oneof![near_the_end(), any_text()]) {
            let said: String = text.chars().map(harmless).collect();
            let cut = Message::new(&text);
            let cut = cut.as_str();
            prop_assert!(cut.len() <= MAX_BYTES, "{} bytes", cut.len());
            prop_assert!(!cut.chars().any(breaks_a_line));
            if said.len() <= MAX_BYTES {
                prop_assert_eq!(cut, said);
            } else {
                let kept = cut.strip_suffix(CUT).expect("the cut is marked");
                let rest = said.strip_prefix(kept).expect("cut between characters");
                let next = rest.chars().next().expect("something was cut").len_utf8();
                prop_assert!(kept.len() + next + CUT.len() > MAX_BYTES, "more than need be was cut");
            }
            // Read back from the state file it is not cut again.
            let again = Message::new(cut);
            prop_assert_eq!(again.as_str(), cut);
        }
    }

    #[test]
    fn the_room_is_used_to_the_last_byte() {
        for wide in ["a", "\u{e4}", "\u{1f600}"] {
            let full = wide.repeat(MAX_BYTES / wide.len());
            assert_eq!(Message::new(&full).as_str(), full);
            let cut = Message::new(&(full + "a"));
            assert!(cut.as_str().ends_with(CUT), "{cut}");
        }
    }

    #[test]
    fn one_line() {
        assert_eq!(Message::new("a\nb\u{1b}[31m").as_str(), "a b [31m");
        assert_eq!(Message::new("a\r\n\u{85}\u{9b}\u{2028}\u{2029}\0b").as_str(), "a       b");
    }
}
