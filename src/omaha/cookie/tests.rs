use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use rustix::fs::{FileType, mknodat};
use tempfile::TempDir;

use super::*;

const OURS: &str = "https://h:8443";

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
    jar.load(OURS).map(|value| value.to_str().expect("ASCII").to_owned())
}

fn write(path: &Path, content: &[u8]) {
    File::create(path).expect("a file").write_all(content).expect("written");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o7777
}

#[test]
fn only_pairs_are_kept() {
    let now = "2026-06-29T12:00:00Z".parse().expect("a time");
    let long = "x".repeat(SIZE_LIMIT);
    for (set, kept) in [
        (&["a=b; Path=/; Secure; HttpOnly; SameSite=None"][..], "a=b"),
        (&["a=b; Domain=evil.example; Path=/elsewhere"], "a=b"),
        (&["a=b", "c=d=e; Max-Age=60"], "a=b; c=d=e"),
        (&["a=\"b c\",d"], "a=\"b c\",d"),
        (&[" a = b ;Path=/"], "a=b"),
        (&["a=b", "a=c"], "a=c"),
        (&["a=b", "A=c"], "a=b; A=c"),
        (&["a=b", "a=; Max-Age=0"], ""),
        (&["a=b; max-age=-1", "c=d"], "c=d"),
        (&["a=b; Max-Age=99999999999999999999"], "a=b"),
        (&["a=b; Max-Age=soon"], "a=b"),
        (&["a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], ""),
        (&["a=; expires=Thu, 01-Jan-1970 00:00:01 GMT; path=/"], ""),
        (&["a=b; Expires=Mon, 29 Jun 2026 12:00:01 GMT"], "a=b"),
        (&["a=b; Expires=Mon, 29 Jun 2026 11:59:59 GMT; Max-Age=60"], "a=b"),
        (&["a=b; Max-Age=0; Expires=Mon, 29 Jun 2026 12:00:01 GMT"], ""),
        (&["a=b; Expires=whenever"], "a=b"),
        (&["a="], "a="),
        (&["=b"], ""),
        (&["no pair"], ""),
        (&[""], ""),
        (&[], ""),
        (&["a=\u{e9}", "c=d"], "c=d"),
        (&["a=b\tc", "c=d"], "c=d"),
    ] {
        assert_eq!(cookie_of(&headers(set), now), kept, "{set:?}");
    }
    assert_eq!(header(&format!("a={long}")), None, "too long to be sent");
}

#[test]
fn what_is_stored_is_read_back_until_it_is_cleared() {
    let (directory, jar) = jar();
    assert_eq!(loaded(&jar), None);
    jar.store(&headers(&["a=b"]), OURS);
    assert_eq!(loaded(&jar).as_deref(), Some("a=b"));
    assert_eq!(mode(&jar.path), 0o600);
    jar.store(&headers(&["c=d"]), OURS);
    assert_eq!(loaded(&jar).as_deref(), Some("c=d"));
    jar.store(&headers(&[]), OURS);
    jar.store(&headers(&[&format!("e={}", "x".repeat(SIZE_LIMIT))]), OURS);
    assert_eq!(loaded(&jar).as_deref(), Some("c=d"), "nothing to keep, nothing replaced");
    jar.clear();
    jar.clear();
    assert_eq!(loaded(&jar), None);
    assert_eq!(fs::read_dir(directory.path()).expect("the directory").count(), 0);
}

#[test]
fn a_cookie_goes_to_the_origin_that_set_it_and_one_of_unknown_origin_to_any() {
    let (_directory, jar) = jar();
    jar.store(&headers(&["a=b"]), OURS);
    for other in ["https://h", "https://h:8444", "https://other:8443", "http://h:8443", ""] {
        assert_eq!(jar.load(other), None, "{other}");
    }
    for content in ["a=b", "a=b\n", "  a=b\r\n"] {
        write(&jar.path, content.as_bytes());
        assert_eq!(loaded(&jar).as_deref(), Some("a=b"), "{content:?}");
    }
}

#[test]
fn leftovers_and_links_do_not_mislead_the_writer() {
    let (directory, jar) = jar();
    let victim = directory.path().join("victim");
    File::create(&victim).expect("a file");
    symlink(&victim, directory.path().join(".cookie.new")).expect("a link");
    symlink(&victim, &jar.path).expect("a link");
    jar.store(&headers(&["a=b"]), OURS);
    assert_eq!(loaded(&jar).as_deref(), Some("a=b"));
    assert_eq!(fs::metadata(&victim).expect("the victim").len(), 0);
}

#[test]
fn a_link_is_not_read_and_only_the_link_is_cleared() {
    let (directory, jar) = jar();
    let secret = directory.path().join("secret");
    write(&secret, b"a-secret-of-this-host");
    symlink(&secret, &jar.path).expect("a link");
    assert_eq!(loaded(&jar), None);
    jar.clear();
    assert!(secret.exists() && !jar.path.exists());
}

#[test]
fn a_pipe_is_not_waited_for() {
    let (_directory, jar) = jar();
    let mode = Mode::from_raw_mode(0o600);
    mknodat(rustix::fs::CWD, &jar.path, FileType::Fifo, mode, 0).expect("a pipe");
    assert_eq!(loaded(&jar), None);
}

#[test]
fn a_reader_finds_the_old_cookie_or_the_new_one_and_never_none() {
    let (_directory, jar) = jar();
    jar.store(&headers(&["a=0"]), OURS);
    let reader = jar.clone();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert!(loaded(&reader).is_some_and(|cookie| cookie.starts_with("a=")));
            }
        });
        for n in 1..100 {
            jar.store(&headers(&[&format!("a={n}")]), OURS);
        }
        done.store(true, Ordering::Relaxed);
        reading.join().expect("never without a whole cookie");
    });
}

#[test]
fn a_file_that_others_can_read_is_sent_and_the_next_one_is_ours_alone() {
    let (_directory, jar) = jar();
    write(&jar.path, b"a=b\n");
    fs::set_permissions(&jar.path, PermissionsExt::from_mode(0o666)).expect("a mode");
    assert_eq!(loaded(&jar).as_deref(), Some("a=b"));
    jar.store(&headers(&["c=d"]), OURS);
    assert_eq!(mode(&jar.path), 0o600);
}

#[test]
fn a_broken_file_is_no_cookie() {
    let (_directory, jar) = jar();
    let long = "a".repeat(SIZE_LIMIT + 1);
    let endless = "a".repeat(1024 * 1024);
    for content in [
        &b""[..],
        b"\n",
        b"a=\0",
        b"a=b\nc=d",
        b"a=b\r\nInjected: x",
        b"a=b\rInjected: x",
        b"a=b\nhttps://h:8443\nInjected: x",
        b"a=\x1b[31m",
        b"\xff\xfe",
        long.as_bytes(),
        endless.as_bytes(),
    ] {
        write(&jar.path, content);
        assert_eq!(jar.load(OURS), None, "{:?}", content.get(..20).unwrap_or(content));
    }
}

#[test]
fn failures_are_survived() {
    let (directory, _) = jar();
    for path in ["", "/", "missing/cookie", "."] {
        let jar = CookieJar::new(directory.path().join(path));
        jar.store(&headers(&["a=b"]), OURS);
        assert_eq!(jar.load(OURS), None);
        jar.clear();
    }
    let jar = CookieJar::new("/dev/full");
    assert_eq!(jar.load(OURS), None, "a device is no file");
    assert!(Path::new("/dev/full").exists());
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
        let cookie = cookie_of(&headers(&values), Timestamp::now());
        prop_assert!(cookie.is_empty() || header(&cookie).is_some());
    }

    #[test]
    fn whatever_the_file_holds_no_header_is_injected(content: Vec<u8>) {
        let (_directory, jar) = jar();
        write(&jar.path, &content);
        if let Some(value) = jar.load(OURS) {
            prop_assert!(value.as_bytes().iter().all(|byte| matches!(byte, b' '..=b'~')));
        }
    }
}
