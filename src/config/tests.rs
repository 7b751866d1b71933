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
fn nothing_set_is_the_defaults() {
    let config = load(&[]).unwrap().config;
    assert_eq!(config.keys.request, "acl.microsoft.com/update-request");
    assert_eq!(config.stage_timeout.as_secs(), 1200);
    assert_eq!(config.current_version.fallback, Fallback::Zero);
    assert_eq!(config.kubernetes.node_name, NodeName::Hostname);
    assert_eq!(config.node_gone_max_wait, None);
}

#[test]
fn empty_means_the_default() {
    for setting in SETTINGS {
        let loaded = load(&[(setting.name, "")]).unwrap();
        assert_eq!(loaded.effective, load(&[]).unwrap().effective, "{}", setting.name);
    }
}

#[test]
fn a_malformed_value_names_its_variable() {
    let cases = [
        ("COSI_SHA384_SOURCE", "sha"),
        ("KUBERNETES_ANNOTATION_PREFIX", "Not/A/Domain"),
        ("KUBERNETES_API_SERVER", "not a url"),
        ("KUBERNETES_VALIDATE_NODE_UUID", "yes"),
        ("KUBERNETES_NODE_NAME_SOURCE", "dns"),
        ("TRIDENT_SOCKET", "tcp://localhost:1"),
        ("ORCHESTRATION_COOKIE_ENABLED", "1"),
        ("ORCHESTRATION_STAGE_TIMEOUT", "20"),
        ("ORCHESTRATION_FINALIZE_TIMEOUT", "0s"),
        ("ORCHESTRATION_HEARTBEAT_INTERVAL", "-1m"),
        ("ORCHESTRATION_NODE_GONE_MAX_WAIT", "soon"),
        ("ORCHESTRATION_ALLOWED_SERVERS", "https://x"),
        ("NEBRASKA_ENDPOINT", "ftp://x"),
    ];
    for (name, value) in cases {
        let problem = load(&[(name, value)]).unwrap_err();
        assert_eq!(problem.name, name);
        assert!(problem.to_string().starts_with(&format!("{PREFIX}{name}: ")));
    }
}

#[test]
fn an_unknown_one_is_a_warning_with_the_nearest_name() {
    let loaded = load(&[("ORCHESTRATION_STAGE_TIMEOUTS", "1m")]).unwrap();
    assert!(loaded.warnings[0].ends_with("TRIDENT_ACL_AGENT_ORCHESTRATION_STAGE_TIMEOUT"));
}

#[test]
fn urls_are_logged_without_what_they_may_hide() {
    let loaded =
        load(&[("KUBERNETES_API_SERVER", "https://u:secret@api:6443/secret?secret#secret")])
            .unwrap();
    let said = format!("{:?}", loaded.effective);
    assert!(said.contains("https://api:6443") && !said.contains("secret"), "{said}");
}

#[test]
fn booleans_and_durations_as_people_write_them() {
    let loaded = load(&[
        ("ORCHESTRATION_COOKIE_ENABLED", "TRUE"),
        ("ORCHESTRATION_STAGE_TIMEOUT", "1h 30m"),
    ])
    .unwrap();
    assert!(loaded.config.cookie_enabled);
    assert_eq!(loaded.config.stage_timeout.as_secs(), 5400);
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
        ("[::1]:8443", "https://[::1]:8443/", true),
        ("", "https://anything.example/", true),
    ];
    for (allowed, server, expected) in cases {
        let config = load(&[("ORCHESTRATION_ALLOWED_SERVERS", allowed)]).unwrap().config;
        let server = Url::parse(server).unwrap();
        assert_eq!(config.allowed_servers.allows(&server), expected, "{allowed} {server}");
    }
}
