//! The os-release format: `KEY=VALUE` lines with shell quoting, `#` comments, blank lines.

/// The value of `key`, unquoted. The last one wins, as in a shell; a value that a shell could not read
/// counts as absent.
pub(super) fn value(text: &str, key: &str) -> Option<String> {
    text.trim_start_matches('\u{feff}')
        .lines()
        .filter_map(|line| assignment(line, key))
        .next_back()?
}

/// `None`: another line. `Some(None)`: this key, with a value that cannot be read.
fn assignment(line: &str, key: &str) -> Option<Option<String>> {
    let (name, value) = line.trim().split_once('=')?;
    (name.trim_end() == key).then(|| unquote(value))
}

/// Quotes and escapes are a shell's; nothing is expanded. What was no UTF-8 is no version.
fn unquote(value: &str) -> Option<String> {
    let mut words = shlex::split(value)?;
    let word = match words.len() {
        0 => Some(String::new()),
        1 => words.pop(),
        _ => None,
    };
    word.filter(|word| !word.contains(char::REPLACEMENT_CHARACTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What systemd and a shell agree on; where they do not, the note says whom this follows.
    #[test]
    fn as_a_shell_reads_it() {
        let cases = [
            ("VERSION_ID=1.2", Some("1.2")),
            ("VERSION_ID=\"1.2\"", Some("1.2")),
            ("VERSION_ID='1.2'", Some("1.2")),
            ("VERSION_ID='1 2'", Some("1 2")),
            ("VERSION_ID=\"1 2\"", Some("1 2")),
            ("VERSION_ID='it'\"'\"'s'", Some("it's")),
            ("VERSION_ID=1\"2\"'3'4", Some("1234")),
            // Escapes.
            ("VERSION_ID=\"a\\\"b\\$c\"", Some("a\"b$c")),
            ("VERSION_ID=\"a\\\\b\\`c\"", Some("a\\b`c")),
            ("VERSION_ID=\"a\\nb\"", Some("a\\nb")),
            ("VERSION_ID='a\\nb'", Some("a\\nb")),
            ("VERSION_ID=a\\ b", Some("a b")),
            // Nothing is expanded: systemd's way.
            ("VERSION_ID=$HOME", Some("$HOME")),
            ("VERSION_ID=\"$(id)`id`\"", Some("$(id)`id`")),
            ("VERSION_ID=~", Some("~")),
            ("VERSION_ID=*", Some("*")),
            // Comments and blanks.
            ("# VERSION_ID=0\n\nVERSION_ID=1\r\n", Some("1")),
            ("  # VERSION_ID=0\n\t\n  VERSION_ID=1", Some("1")),
            ("#VERSION_ID=1", None),
            ("VERSION_ID=1#2", Some("1#2")),
            // A shell's way; systemd takes it all.
            ("VERSION_ID=1 # 2", Some("1")),
            // Ends of lines, of the file, and what stands before its beginning.
            ("VERSION_ID=1", Some("1")),
            ("VERSION_ID=1\n", Some("1")),
            ("VERSION_ID=1\r\n", Some("1")),
            ("VERSION_ID=\"1\"\r\nID=x\r\n", Some("1")),
            ("VERSION_ID=1 \t", Some("1")),
            ("\u{feff}VERSION_ID=1", Some("1")),
            ("ID=x\n\u{feff}VERSION_ID=1", None),
            // The last one wins, also where it cannot be read.
            ("VERSION_ID=1\nVERSION_ID=2", Some("2")),
            ("VERSION_ID=1\nVERSION_ID=", Some("")),
            ("VERSION_ID=1\nVERSION_ID=\"2", None),
            // Blanks round the key: systemd's way.
            (" VERSION_ID =1", Some("1")),
            ("VERSION_ID = 1", Some("1")),
            // Another key.
            ("export VERSION_ID=1", None),
            ("version_id=1", None),
            ("VERSION_ID", None),
            ("VERSION_ID: 1", None),
            ("=1", None),
            ("VERSION_ID+=1", None),
            ("OTHER=1", None),
            ("NOT_VERSION_ID=1", None),
            ("VERSION_ID_NOT=1", None),
            ("OTHER=VERSION_ID=1", None),
            ("VERSION_ID=a=b", Some("a=b")),
            // Empty, or what a shell would not read.
            ("", None),
            ("VERSION_ID=", Some("")),
            ("VERSION_ID=\"\"", Some("")),
            ("VERSION_ID=''", Some("")),
            ("VERSION_ID=a b", None),
            ("VERSION_ID=\"open", None),
            ("VERSION_ID='open", None),
            ("VERSION_ID=a\\", None),
            ("VERSION_ID=\"two\nlines\"", None),
            ("VERSION_ID=1\u{fffd}", None),
            ("ID=\u{fffd}\nVERSION_ID=1", Some("1")),
        ];
        for (text, expected) in cases {
            assert_eq!(value(text, "VERSION_ID").as_deref(), expected, "{text:?}");
        }
    }
}
