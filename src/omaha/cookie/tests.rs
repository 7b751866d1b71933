use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

fn headers(set_cookies: &[&str]) -> HeaderMap {
    let value = |text: &&str| HeaderValue::from_bytes(text.as_bytes()).expect("a header value");
    set_cookies.iter().map(|text| (SET_COOKIE, value(text))).collect()
}

fn jar() -> (TempDir, CookieJar) {
    let directory = TempDir::new().expect("a directory");
    let jar = CookieJar::new(directory.path().join("cookie"));
    (directory, jar)
}

fn loaded(jar: &CookieJar) -> Option<String> {
    jar.load().map(|value| value.to_str().expect("ASCII").to_owned())
}

#[test]
fn only_pairs_are_kept() {
    for (set, kept) in [
        (&["a=b; Path=/; Secure; HttpOnly"][..], Some("a=b")),
        (&["a=b", "c=d=e; Max-Age=60"], Some("a=b; c=d=e")),
        (&["a=b", "a=c"], Some("a=c")),
        (&["a=b", "a=; Max-Age=0"], None),
        (&["a=b; max-age=-1", "c=d"], Some("c=d")),
        (&["a="], Some("a=")),
        (&["=b"], None),
        (&["no pair"], None),
        (&[""], None),
        (&[], None),
        (&["a=\u{e9}"], None),
        (&["a=b\tc"], None),
    ] {
        assert_eq!(cookie_of(&headers(set)).as_deref(), kept, "{set:?}");
    }
}

#[test]
fn a_cookie_is_stored_privately_and_read_anew() {
    let (directory, jar) = jar();
    assert_eq!(loaded(&jar), None);
    jar.store(&headers(&["a=b"]));
    assert_eq!(loaded(&jar).as_deref(), Some("a=b"));
    let mode = fs::metadata(&jar.path).expect("the file").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    jar.store(&headers(&["c=d"]));
    assert_eq!(loaded(&jar).as_deref(), Some("c=d"));
    jar.store(&headers(&[]));
    assert_eq!(loaded(&jar).as_deref(), Some("c=d"), "nothing set, nothing replaced");
    jar.clear();
    jar.clear();
    assert_eq!(loaded(&jar), None);
    assert_eq!(fs::read_dir(directory.path()).expect("the directory").count(), 0);
}

#[test]
fn leftovers_and_links_do_not_mislead_the_writer() {
    let (directory, jar) = jar();
    let victim = directory.path().join("victim");
    File::create(&victim).expect("a file");
    symlink(&victim, directory.path().join(".cookie.new")).expect("a link");
    symlink(&victim, &jar.path).expect("a link");
    jar.store(&headers(&["a=b"]));
    assert_eq!(loaded(&jar).as_deref(), Some("a=b"));
    assert_eq!(fs::metadata(&victim).expect("the victim").len(), 0);
}

#[test]
fn a_broken_file_is_no_cookie() {
    let (_directory, jar) = jar();
    let long = "a".repeat(SIZE_LIMIT + 1);
    for content in [&b""[..], b"\n", b"a=\0", b"a=b\nc=d", b"\xff\xfe", long.as_bytes()] {
        let mut file = File::create(&jar.path).expect("the file");
        file.write_all(content).expect("written");
        assert_eq!(jar.load(), None, "{content:?}");
    }
}

#[test]
fn failures_are_survived() {
    let (directory, _) = jar();
    for path in ["", "/", "missing/cookie", "."] {
        let jar = CookieJar::new(directory.path().join(path));
        jar.store(&headers(&["a=b"]));
        assert_eq!(jar.load(), None);
        jar.clear();
    }
}

#[test]
fn a_value_is_never_printed() {
    let value = header("a=secret").expect("a value");
    assert!(!format!("{value:?}").contains("secret"));
}

proptest! {
    #[test]
    fn whatever_is_set_can_be_sent(values in proptest::collection::vec("[\\x20-\\x7e\\t]*", 0..4)) {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        if let Some(cookie) = cookie_of(&headers(&values)) {
            prop_assert!(header(&cookie).is_some());
        }
    }
}
