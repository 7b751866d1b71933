mod table;

use std::ffi::OsString;

use url::Url;

use super::*;

fn load(vars: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    let vars = vars
        .iter()
        .map(|(name, value)| (OsString::from(format!("{PREFIX}{name}")), OsString::from(value)));
    Config::load(vars)
}

#[test]
fn an_unknown_one_is_a_warning_with_the_nearest_name() {
    let near = [
        ("ORCHESTRATION_STAGE_TIMEOUTS", "ORCHESTRATION_STAGE_TIMEOUT"),
        ("STAGE_TIMEOUT", "ORCHESTRATION_STAGE_TIMEOUT"),
        ("NODE_NAME", "KUBERNETES_NODE_NAME"),
        ("KUBECONFIG", "KUBERNETES_KUBECONFIG"),
        ("KUBERNETES_NODENAME", "KUBERNETES_NODE_NAME"),
        ("ANNOTATION_PREFIX", "KUBERNETES_ANNOTATION_PREFIX"),
        ("TRIDENT_SOCK", "TRIDENT_SOCKET"),
        ("orchestration_stage_timeout", "ORCHESTRATION_STAGE_TIMEOUT"),
    ];
    for (unknown, known) in near {
        let loaded = load(&[(unknown, "whatever")]).unwrap();
        let [warning] = &loaded.warnings[..] else { panic!("{:?}", loaded.warnings) };
        assert!(warning.contains(&format!("{PREFIX}{unknown}, ")), "{warning}");
        assert!(warning.ends_with(&format!(" {PREFIX}{known}")), "{warning}");
        assert_eq!(loaded.effective, load(&[]).unwrap().effective, "it changes nothing");
    }
    assert_eq!(load(&[]).unwrap().warnings, Vec::<String>::new());
}

#[test]
fn a_warning_is_one_short_line_whatever_the_name_is() {
    use std::os::unix::ffi::OsStringExt;
    let named = |rest: &[u8]| OsString::from_vec([PREFIX.as_bytes(), rest].concat());
    for name in [b"\xff\xfe".as_slice(), b"A\nB\x1b[31m", &[b'A'; 100_000], b""] {
        let loaded = Config::load([(named(name), named(name))]).unwrap();
        let [warning] = &loaded.warnings[..] else { panic!("{:?}", loaded.warnings) };
        assert!(!warning.chars().any(char::is_control), "{warning:?}");
        assert!(warning.len() < 1000, "{warning:?}");
    }
    let foreign = [("PATH", "/x"), ("XTRIDENT_ACL_AGENT_A", "1"), ("trident_acl_agent_A", "1")];
    let foreign = foreign.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    assert_eq!(Config::load(foreign).unwrap().warnings, Vec::<String>::new());
}

#[test]
fn urls_are_logged_without_what_they_may_hide() {
    for setting in SETTINGS.iter().filter(|setting| setting.kind == Kind::Url) {
        let url = "https://u:secret@api:6443/secret?secret#secret";
        let loaded = load(&[(setting.name, url)]).unwrap();
        let said = format!("{:?}", loaded.effective);
        assert!(said.contains("https://api:6443\"") && !said.contains("secret"), "{said}");
    }
}

#[test]
fn what_is_in_force_is_said_of_every_setting_in_one_line_each() {
    let effective = load(&[("CURRENT_VERSION_FALLBACK", "a\nb\u{1b}")]).unwrap().effective;
    let names: Vec<_> = effective.iter().map(|(name, _)| name.clone()).collect();
    let declared: Vec<_> = SETTINGS.iter().map(|it| format!("{PREFIX}{}", it.name)).collect();
    assert_eq!(names, declared);
    assert!(!format!("{effective:?}").contains("\\n\""), "{effective:?}");
    for (name, value) in &effective {
        assert!(!value.is_empty() && !value.chars().any(char::is_control), "{name}: {value:?}");
    }
}

#[test]
fn allowed_servers() {
    let cases = [
        ("updates.example.com", "https://updates.example.com/v1", true),
        ("updates.example.com", "https://UPDATES.example.com:8443/v1", true),
        ("updates.example.com", "https://evil.updates.example.com/", false),
        (".example.com", "https://a.b.example.com/", true),
        (".example.com", "https://example.com/", true),
        (".example.com", "https://evilexample.com/", false),
        ("a.example, b.example:8443", "https://b.example:8443/", true),
        ("b.example:8443", "https://b.example/", false),
        ("b.example:443", "https://b.example/", true),
        ("b.example:443", "https://b.example:444/", false),
        ("b.example:0443", "https://b.example:444/", false),
        ("[::1]:8443", "https://[::1]:8443/", true),
        ("[::1]:443", "https://[::1]:444/", false),
        ("[::1]", "https://[::1]:444/", true),
        ("", "https://anything.example/", true),
    ];
    for (allowed, server, expected) in cases {
        let config = load(&[("ORCHESTRATION_ALLOWED_SERVERS", allowed)]).unwrap().config;
        let server = Url::parse(server).unwrap();
        assert_eq!(config.allowed_servers.allows(&server), expected, "{allowed} {server}");
    }
}
