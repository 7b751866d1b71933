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
    (name == key).then(|| unquote(value))
}

fn unquote(value: &str) -> Option<String> {
    let mut words = shlex::split(value)?;
    match words.len() {
        0 => Some(String::new()),
        1 => words.pop(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_a_shell_reads_it() {
        let cases = [
            ("VERSION_ID=1.2", Some("1.2")),
            ("VERSION_ID=\"1.2\"", Some("1.2")),
            ("VERSION_ID='1 2'", Some("1 2")),
            ("VERSION_ID=\"a\\\"b\\$c\"", Some("a\"b$c")),
            ("# VERSION_ID=0\n\nVERSION_ID=1\r\n", Some("1")),
            ("\u{feff}VERSION_ID=1", Some("1")),
            ("VERSION_ID=1\nVERSION_ID=2", Some("2")),
            ("VERSION_ID=", Some("")),
            ("VERSION_ID=a b", None),
            ("VERSION_ID=\"open", None),
            ("OTHER=1", None),
            ("NOT_VERSION_ID=1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(value(text, "VERSION_ID").as_deref(), expected, "{text}");
        }
    }
}
