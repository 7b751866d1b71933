//! Text from the daemon: bounded, on one line, and without the secret parts of addresses.
//!
//! tridentd may quote the image address that it was given, which may be pre-signed.

/// Longest text that is passed on, in bytes.
pub(super) const TEXT_LIMIT: usize = 32 * 1024;
/// Stands where a text was cut.
const CUT: &str = " [cut]";
/// Stands for the credentials or the query of an address.
const HIDDEN: &str = "[hidden]";

/// `raw` with control characters escaped, credentials and queries of addresses hidden, at most
/// [`TEXT_LIMIT`] bytes and the mark of the cut.
pub(super) fn text(raw: &str) -> String {
    let mut out = String::new();
    for token in raw.split_inclusive(ends_address) {
        push_harmless(&mut out, &hide(token));
        if out.len() > TEXT_LIMIT {
            cut(&mut out);
            out.push_str(CUT);
            break;
        }
    }
    out
}

/// `scheme://host:port` of an address, or a word for what is none.
pub(super) fn origin(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        return "(no address)".to_owned();
    };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let mut out = String::new();
    push_harmless(&mut out, &format!("{scheme}://{host}"));
    out
}

fn ends_address(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '`' | '<' | '>')
}

/// Hides what stands between `://` and `@`, and everything from the first `?` or `#` on.
fn hide(token: &str) -> String {
    let Some((scheme, rest)) = token.split_once("://") else {
        return token.to_owned();
    };
    let end = rest.trim_end_matches(ends_address).len();
    let (address, tail) = rest.split_at(end);
    let (place, query) = match address.find(['?', '#']) {
        Some(at) => (address.get(..at).unwrap_or_default(), "?"),
        None => (address, ""),
    };
    let hidden_query = if query.is_empty() { "" } else { HIDDEN };
    match place.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{HIDDEN}@{host}{query}{hidden_query}{tail}"),
        None => format!("{scheme}://{place}{query}{hidden_query}{tail}"),
    }
}

/// Cuts on a character boundary.
fn cut(out: &mut String) {
    let at = (0..=TEXT_LIMIT).rev().find(|&at| out.is_char_boundary(at)).unwrap_or(0);
    out.truncate(at);
}

/// One record is one line, and no terminal obeys it.
fn push_harmless(out: &mut String, text: &str) {
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn credentials_and_queries_are_hidden_and_the_rest_is_kept() {
        for (raw, shown) in [
            ("get https://h/a?sig=x failed", "get https://h/a?[hidden] failed"),
            ("\"https://u:p@h:1/a?sig=x\", then", "\"https://[hidden]@h:1/a?[hidden]\", then"),
            ("url=oci://h/a#frag", "url=oci://h/a?[hidden]"),
            ("https://h/a:1 (b)", "https://h/a:1 (b)"),
            ("a://b?c://u:p@d", "a://b?[hidden]"),
            ("what? no: yes", "what? no: yes"),
            ("two\nlines\x1b[31m", "two\\nlines\\u{1b}[31m"),
        ] {
            assert_eq!(text(raw), shown, "{raw}");
        }
    }

    #[test]
    fn a_long_text_is_cut_on_a_character() {
        let cut = text(&"\u{20ac}".repeat(TEXT_LIMIT));
        assert!(cut.ends_with(CUT) && cut.len() <= TEXT_LIMIT + CUT.len());
    }

    proptest! {
        #[test]
        fn no_control_character_and_no_signature_passes(before in ".*", after in "[^\\s\"'`<>]*") {
            let shown = text(&format!("{before} https://h/x?sig=SECRET{after}"));
            prop_assert!(!shown.contains("SECRET") || before.contains("SECRET"));
            prop_assert!(!shown.chars().any(char::is_control));
        }
    }
}
