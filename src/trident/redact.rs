//! Text from the daemon: bounded, on one line, and without the secret parts of addresses.
//!
//! tridentd may quote the image address that it was given, which may be pre-signed: as it is, as JSON has it
//! (`https:\/\/`), percent-encoded in another address (`https%3A%2F%2F`), or several of these at once.

/// Longest text that is passed on, in bytes.
pub(super) const TEXT_LIMIT: usize = 32 * 1024;
/// Longest word that is passed on, in bytes: it stands in a status, which has its place among a Node's
/// annotations.
const WORD_LIMIT: usize = 256;
/// Stands where a text was cut.
const CUT: &str = " [cut]";
/// Stands for the credentials or the query of an address.
const HIDDEN: &str = "[hidden]";
/// How many encodings within each other are seen through.
const NESTING_LIMIT: usize = 8;

/// `raw` with control characters escaped, credentials and queries of addresses hidden, at most
/// [`TEXT_LIMIT`] bytes and the mark of the cut.
pub(super) fn text(raw: &str) -> String {
    let mut out = String::new();
    for token in raw.split_inclusive(ends_address) {
        push_harmless(&mut out, &hide(token));
        if out.len() > TEXT_LIMIT {
            break;
        }
    }
    cut(out, TEXT_LIMIT)
}

/// [`text`] of what should be a word or a path: at most [`WORD_LIMIT`] bytes and the mark of the cut.
pub(super) fn word(raw: &str) -> String {
    cut(text(raw), WORD_LIMIT)
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

/// Hides what stands between `://` and `@`, and everything from the first `?` or `#` on, in any spelling.
fn hide(token: &str) -> String {
    let body = token.trim_end_matches(ends_address);
    // No address is longer; what is left of one could end within its password.
    let whole = body.len() <= TEXT_LIMIT;
    let body = body.get(..body.floor_char_boundary(TEXT_LIMIT + 4)).unwrap_or(body);
    let letters = letters(body);
    let is_address =
        |at: &[Letter]| matches!(at, [a, b, c] if (a.is, b.is, c.is) == (':', '/', '/'));
    let Some(at) = letters.windows(3).position(is_address) else {
        return if whole { token.to_owned() } else { body.to_owned() };
    };
    let (before, address) = letters.split_at(at + 3);
    let scheme = before.last().map_or(0, |letter| letter.end);
    let query = address.iter().find(|letter| !whole || matches!(letter.is, '?' | '#'));
    let end = query.map_or(body.len(), |letter| letter.start);
    let place = address.iter().take_while(|letter| letter.start < end);
    let at_sign = place.filter(|letter| letter.is == '@').last();
    let part = |from: usize, to: usize| body.get(from..to).unwrap_or_default();
    let credentials = if at_sign.is_some() { HIDDEN } else { "" };
    let host = at_sign.map_or(scheme, |letter| letter.start);
    let hidden = if query.is_some() { format!("?{HIDDEN}") } else { String::new() };
    let tail = token.trim_start_matches(|c| !ends_address(c));
    format!("{}{credentials}{}{hidden}{tail}", part(0, scheme), part(host, end))
}

/// A character and where its spelling stands.
#[derive(Clone, Copy)]
struct Letter {
    is: char,
    start: usize,
    end: usize,
}

/// The characters that a text spells, each encoding undone.
fn letters(text: &str) -> Vec<Letter> {
    let plain = text.char_indices();
    let plain = plain.map(|(start, is)| Letter { is, start, end: start + is.len_utf8() });
    let mut letters: Vec<Letter> = plain.collect();
    for _ in 0..NESTING_LIMIT {
        let outer = decoded(&letters);
        if outer.len() == letters.len() {
            break;
        }
        letters = outer;
    }
    letters
}

/// With one level of encoding undone.
fn decoded(letters: &[Letter]) -> Vec<Letter> {
    let mut out = Vec::with_capacity(letters.len());
    let mut rest = letters;
    while let [first, after @ ..] = rest {
        let (is, more) = spelled(first.is, after).unwrap_or((first.is, 0));
        let (used, left) = after.split_at(more);
        let end = used.last().map_or(first.end, |letter| letter.end);
        out.push(Letter { is, start: first.start, end });
        rest = left;
    }
    out
}

/// `%3A` of an address; `\/`, `\\`, `\u003a` and `\x3a` of JSON and its like. With how many letters more.
fn spelled(first: char, after: &[Letter]) -> Option<(char, usize)> {
    match (first, after) {
        ('%', _) => Some((hex(after.get(..2)?)?, 2)),
        ('\\', [next, digits @ ..]) => match next.is {
            '/' | '\\' => Some((next.is, 1)),
            'u' => Some((hex(digits.get(..4)?)?, 5)),
            'x' => Some((hex(digits.get(..2)?)?, 3)),
            _ => None,
        },
        _ => None,
    }
}

fn hex(digits: &[Letter]) -> Option<char> {
    let number = digits.iter().try_fold(0, |sum, it| Some(sum * 16 + it.is.to_digit(16)?));
    number.and_then(char::from_u32)
}

/// Cuts on a character boundary, and marks it.
fn cut(mut out: String, limit: usize) -> String {
    if out.len() > limit {
        out.truncate(out.floor_char_boundary(limit));
        out.push_str(CUT);
    }
    out
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
            (
                r"get https:\/\/u:p@h\/a?sig=x failed",
                r"get https:\/\/[hidden]@h\/a?[hidden] failed",
            ),
            (r"https:\\\/\\\/h\\\/a?sig=x", r"https:\\\/\\\/h\\\/a?[hidden]"),
            (r"https:\u002f\u002fh\u002Fa\u003fsig=x", r"https:\u002f\u002fh\u002Fa?[hidden]"),
            (r"https\x3a\x2f\x2fu:p\x40h", r"https\x3a\x2f\x2f[hidden]\x40h"),
            ("https%3A%2F%2Fu%3Ap%40h%2Fa%3Fsig%3Dx,", "https%3A%2F%2F[hidden]%40h%2Fa?[hidden]"),
            ("to=https%253a%252F%252Fh%252Fa%2523x", "to=https%253a%252F%252Fh%252Fa?[hidden]"),
            ("https://h/get/https%3A%2F%2Fi%3Fsig%3Dx", "https://h/get/https%3A%2F%2Fi?[hidden]"),
            (r"C:\users\x 100%25 done, 5%", r"C:\users\x 100%25 done, 5%"),
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

    #[test]
    fn a_token_without_an_end_is_bounded_and_shows_no_password() {
        let endless = text(&format!("https://u:SECRET{}", "x".repeat(TEXT_LIMIT)));
        assert_eq!(endless, "https://?[hidden]");
        let shown = text(&"x".repeat(64 * TEXT_LIMIT));
        assert!(shown.ends_with(CUT) && shown.len() <= TEXT_LIMIT + CUT.len());
    }

    /// As JSON has it, as an address in an address, and each within the other.
    fn written(text: &str, how: &[bool]) -> String {
        how.iter().fold(text.to_owned(), |text, json| match json {
            true => text.replace('\\', r"\\").replace('/', r"\/"),
            false => url::form_urlencoded::byte_serialize(text.as_bytes()).collect(),
        })
    }

    proptest! {
        #[test]
        fn no_spelling_hides_an_address_from_us(
            how in proptest::collection::vec(any::<bool>(), 0..4),
            password in proptest::option::of("SECRET[a-z0-9]{0,8}"),
        ) {
            let password = password.map_or(String::new(), |it| format!("u:{it}@"));
            let address = written(&format!("https://{password}h/x?sig=SECRET"), &how);
            let shown = text(&format!("cannot get {address}, giving up"));
            prop_assert!(!shown.contains("SECRET"), "{address}: {shown}");
            prop_assert!(shown.starts_with("cannot get http") && shown.ends_with("giving up"));
        }

        #[test]
        fn no_control_character_and_no_signature_passes(before in ".*", after in "[^\\s\"'`<>]*") {
            let shown = text(&format!("{before} https://h/x?sig=SECRET{after}"));
            prop_assert!(!shown.contains("SECRET") || before.contains("SECRET"));
            prop_assert!(!shown.chars().any(char::is_control));
        }
    }
}
