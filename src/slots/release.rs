//! The `extension-release` file of an image: `KEY=VALUE` lines as in os-release.

use thiserror::Error;

use super::fields::Fields;
use super::word::{Id, Kind, Word};

/// A larger one is none.
pub(super) const MAX_BYTES: u64 = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReleaseError {
    #[error("line {line}: {why}")]
    Line { line: usize, why: &'static str },
    #[error("it has no {0}")]
    NoId(&'static str),
    #[error(transparent)]
    Id(#[from] Word),
}

/// # Errors
/// The first line that a shell could not read, or that says a field again.
pub fn parse_release(text: &str) -> Result<Fields, ReleaseError> {
    let mut fields = Fields::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let failed = |why| ReleaseError::Line { line: at + 1, why };
        let (name, value) = line.split_once('=').ok_or_else(|| failed("there is no `=`"))?;
        let value = unquote(value).ok_or_else(|| failed("the value's quotes do not match"))?;
        fields.add(name.to_owned(), value).map_err(failed)?;
    }
    Ok(fields)
}

/// `SYSEXT_ID` or `CONFEXT_ID`.
///
/// # Errors
/// Absent, or no id.
pub fn id_of(fields: &Fields, kind: Kind) -> Result<Id, ReleaseError> {
    let field = match kind {
        Kind::Sysext => "SYSEXT_ID",
        Kind::Confext => "CONFEXT_ID",
    };
    Ok(fields.get(field).ok_or(ReleaseError::NoId(field))?.parse()?)
}

/// As a shell would, for one word: quotes of either kind, and backslashes.
fn unquote(value: &str) -> Option<String> {
    let mut text = String::new();
    let mut quote = None;
    let mut signs = value.chars();
    while let Some(sign) = signs.next() {
        match (quote, sign) {
            (None, '"' | '\'') => quote = Some(sign),
            (Some(open), _) if open == sign => quote = None,
            (Some('\''), _) => text.push(sign),
            (Some(_), '\\') => match signs.next()? {
                next @ ('"' | '\\' | '$' | '`') => text.push(next),
                next => text.extend(['\\', next]),
            },
            (None, '\\') => text.push(signs.next()?),
            (None, _) if sign.is_whitespace() => return None,
            _ => text.push(sign),
        }
    }
    quote.is_none().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_a_shell_reads_them() {
        let cases = [
            ("ID=_any", Some("_any")),
            ("# a comment\n\n  ID=x \n", Some("x")),
            ("ID=\"a b\"", Some("a b")),
            ("ID='a \"b\\'", Some("a \"b\\")),
            ("ID=\"a\\\"b\\$c\\n\"", Some("a\"b$c\\n")),
            ("ID=a\\ b", Some("a b")),
            ("ID=", Some("")),
            ("ID=a b", None),
            ("ID=\"open", None),
            ("ID=end\\", None),
            ("ID", None),
            ("id=x", None),
            ("ID=a\nID=b", None),
            ("ID=\u{1}", None),
        ];
        for (text, expected) in cases {
            let parsed = parse_release(text).ok();
            assert_eq!(parsed.as_ref().and_then(|it| it.get("ID")), expected, "{text:?}");
        }
    }

    #[test]
    fn the_id_is_that_of_the_kind() {
        let fields = parse_release("SYSEXT_ID=s\nCONFEXT_ID=../x").unwrap();
        assert_eq!(id_of(&fields, Kind::Sysext).unwrap().as_str(), "s");
        assert!(id_of(&fields, Kind::Confext).is_err());
        assert_eq!(id_of(&Fields::default(), Kind::Sysext), Err(ReleaseError::NoId("SYSEXT_ID")));
    }
}
