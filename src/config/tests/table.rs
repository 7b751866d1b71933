//! Every setting: its default, values that are taken, values that end the start. A setting without a row
//! fails.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::load;
use crate::config::{
    Config, ConfigError, Fallback, Kind, Loaded, NodeName, PREFIX, SETTINGS, Setting,
};

struct Row {
    name: &'static str,
    /// What the program goes by.
    read: fn(&Config) -> String,
    /// That, where the variable is unset or empty.
    default: &'static str,
    /// The variable's value, and what the program goes by then.
    good: &'static [(&'static str, &'static str)],
    bad: &'static [&'static str],
}

const NOT_BOOLEANS: &[&str] = &["1", "0", "yes", "no", "on", "t", "true ", " true", "tru\u{e9}"];
/// No unit, no number, nothing, too much, less than nothing.
const NOT_DURATIONS: &[&str] = &[
    "20",
    "m",
    "20 m m",
    "0s",
    "0",
    "-1m",
    "1.5",
    "soon",
    " ",
    "10years 1ns",
    "3653days",
    "18446744073709551616s",
    "999999999999999999999999y",
    "20m;",
    "\u{b2}0m",
    "NaN",
    "inf",
];
const NOT_PATHS: &[&str] =
    &["relative", "./x", "~/x", "/", "/etc/", "/etc/..", " /etc/x", "file:///x"];
const NOT_URLS: &[&str] = &[
    "not a url",
    "host:6443",
    "/path",
    "https://",
    "http:///",
    "ftp://x",
    "unix:///x",
    "file:///x",
    "https://x:99999",
    "https://[::1",
    "https://me:secret@",
    "javascript:secret",
    "mailto:me@secret",
    "https://secret\"/",
];
const NOT_NAMES: &[&str] = &[
    "Upper",
    "under_score",
    "a/b",
    "../x",
    "a b",
    "-a",
    "a-",
    ".a",
    "a.",
    "a..b",
    "a\n",
    "\u{e4}",
    "a?b",
    "a%2fb",
];

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row {
        name: "COSI_SHA384_SOURCE",
        read: |config| format!("{:?}", config.sha384_source),
        default: "Labels",
        good: &[("labels", "Labels"), ("hash", "Hash")],
        bad: &["sha", "Labels", "labels,hash", " hash"],
    },
    Row {
        name: "KUBERNETES_ANNOTATION_PREFIX",
        read: |config| config.keys.status.replace("/update-status", ""),
        default: "acl.microsoft.com",
        good: &[("acl.contoso.com", "acl.contoso.com"), ("x", "x")],
        bad: NOT_NAMES,
    },
    Row {
        name: "CURRENT_VERSION_PATH",
        read: |config| config.current_version.path.display().to_string(),
        default: "/etc/os-release",
        good: &[("/etc/my-app-release", "/etc/my-app-release"), ("/a b/\u{e4}", "/a b/\u{e4}")],
        bad: NOT_PATHS,
    },
    Row {
        name: "CURRENT_VERSION_KEY",
        read: |config| config.current_version.key.clone(),
        default: "VERSION_ID",
        good: &[("BUILD_VERSION", "BUILD_VERSION"), ("build.version", "build.version")],
        bad: &["A=B", "A B", " A", "A\n", "#A", "\u{7}", " "],
    },
    Row {
        name: "CURRENT_VERSION_FALLBACK",
        read: |config| match &config.current_version.fallback {
            Fallback::Zero => "0.0.0".to_owned(),
            Fallback::Error => "an error".to_owned(),
            Fallback::Verbatim(text) => format!("text {text}"),
        },
        default: "0.0.0",
        good: &[
            ("always", "0.0.0"), ("error", "an error"), ("Error", "text Error"),
            ("1.2.3", "text 1.2.3"), (" ", "text  "), ("any\nthing", "text any\nthing"),
        ],
        bad: &[],
    },
    Row {
        name: "KUBERNETES_API_SERVER",
        read: |config| format!("{:?}", config.kubernetes.api_server.as_ref().map(|url| url.as_str())),
        default: "None",
        good: &[
            ("https://api:6443", "Some(\"https://api:6443/\")"),
            ("http://[::1]/x", "Some(\"http://[::1]/x\")"),
        ],
        bad: NOT_URLS,
    },
    Row {
        name: "KUBERNETES_KUBECONFIG",
        read: |config| config.kubernetes.kubeconfig.display().to_string(),
        default: "/var/lib/kubelet/kubeconfig",
        good: &[("/etc/kubeconfig", "/etc/kubeconfig")],
        bad: NOT_PATHS,
    },
    Row {
        name: "KUBERNETES_NODE_NAME",
        read: |config| format!("{:?}", config.kubernetes.node_name),
        default: "Hostname",
        good: &[("node-1.example", "Explicit(\"node-1.example\")")],
        bad: NOT_NAMES,
    },
    Row {
        name: "KUBERNETES_NODE_NAME_SOURCE",
        read: |config| match &config.kubernetes.node_name {
            NodeName::Hostname => "hostname".to_owned(),
            NodeName::Explicit(_) => "explicit".to_owned(),
            NodeName::KubeletCert(path) => path.display().to_string(),
        },
        default: "hostname",
        good: &[
            ("hostname", "hostname"),
            ("kubelet-cert", "/var/lib/kubelet/pki/kubelet-client-current.pem"),
        ],
        bad: &["dns", "Hostname", "kubelet_cert", "hostname "],
    },
    Row {
        name: "KUBERNETES_KUBELET_CERT_PATH",
        // Used with the source `kubelet-cert` only, and checked always.
        read: |config| format!("{:?}", config.kubernetes.node_name),
        default: "Hostname",
        good: &[("/etc/kubelet.pem", "Hostname")],
        bad: NOT_PATHS,
    },
    Row {
        name: "KUBERNETES_VALIDATE_NODE_UUID",
        read: |config| config.kubernetes.validate_node_uuid.to_string(),
        default: "false",
        good: &[("true", "true"), ("TRUE", "true"), ("False", "false")],
        bad: NOT_BOOLEANS,
    },
    Row {
        name: "TRIDENT_SOCKET",
        read: |config| config.trident_socket.clone(),
        default: "unix:///run/trident/trident.sock",
        good: &[("unix:///run/t.sock", "unix:///run/t.sock"), ("unix:///a b/\u{e4}", "unix:///a b/\u{e4}")],
        bad: &[
            "tcp://localhost:1", "https://u:secret@x", "/run/t.sock", "unix:/run/t.sock", "unix://run/t.sock",
            "unix:///", "unix:///run/", "unix:///run/..", " unix:///x",
            "unix:////0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/01234567",
        ],
    },
    Row {
        name: "ORCHESTRATION_STATE_PATH",
        read: |config| config.state_path.display().to_string(),
        default: "/var/lib/trident-acl-agent/state.json",
        good: &[("/srv/state.json", "/srv/state.json")],
        bad: NOT_PATHS,
    },
    Row {
        name: "ORCHESTRATION_COOKIE_ENABLED",
        read: |config| config.cookie_enabled.to_string(),
        default: "false",
        good: &[("true", "true"), ("tRuE", "true"), ("FALSE", "false")],
        bad: NOT_BOOLEANS,
    },
    Row {
        name: "ORCHESTRATION_COOKIE_PATH",
        read: |config| config.cookie_path.display().to_string(),
        default: "/var/lib/trident-acl-agent/nebraska-cookie",
        good: &[("/srv/cookie", "/srv/cookie")],
        bad: NOT_PATHS,
    },
    Row {
        name: "ORCHESTRATION_STAGE_TIMEOUT",
        read: |config| format!("{:?}", config.stage_timeout),
        default: "1200s",
        good: &[("1h 30m", "5400s"), ("90s", "90s"), ("10years", "315576000s"), ("1ns", "1ns")],
        bad: NOT_DURATIONS,
    },
    Row {
        name: "ORCHESTRATION_FINALIZE_TIMEOUT",
        read: |config| format!("{:?}", config.finalize_timeout),
        default: "600s",
        good: &[("1m", "60s")],
        bad: NOT_DURATIONS,
    },
    Row {
        name: "ORCHESTRATION_HEARTBEAT_INTERVAL",
        read: |config| format!("{:?}", config.heartbeat_interval),
        default: "60s",
        good: &[("5s", "5s"), ("1s", "1s"), ("1ns", "1s")],
        bad: NOT_DURATIONS,
    },
    Row {
        name: "ORCHESTRATION_PUBLISH_MAX_WAIT",
        read: |config| format!("{:?}", config.publish_max_wait),
        default: "60s",
        good: &[("10m", "600s")],
        bad: NOT_DURATIONS,
    },
    Row {
        name: "ORCHESTRATION_NODE_GONE_MAX_WAIT",
        read: |config| format!("{:?}", config.node_gone_max_wait),
        default: "None",
        good: &[("30m", "Some(1800s)")],
        bad: NOT_DURATIONS,
    },
    Row {
        name: "ORCHESTRATION_ALLOWED_SERVERS",
        read: |config| format!("{:?}", config.allowed_servers),
        default: "AllowedServers([])",
        good: &[(
            "updates.example.com, .Example.org:444,",
            "AllowedServers([\
             Pattern { host: \"updates.example.com\", and_below: false, port: None }, \
             Pattern { host: \"example.org\", and_below: true, port: Some(444) }])",
        )],
        bad: &[
            "https://x", "https://me:secret@x", "me:secret@x", "x/y", "x?secret", "x#secret", "x\\y", "*.example.com",
            "a b", "x:", "x:port", "x:99999", "..x", ".", ",", " ", "[::1", "a,https://u:secret@x",
        ],
    },
    Row {
        name: "NEBRASKA_ENDPOINT",
        read: |config| config.probe.endpoint.to_string(),
        default: "https://nebraska.example.invalid/v1/update",
        good: &[("https://updates.example.com/v1/update", "https://updates.example.com/v1/update")],
        bad: NOT_URLS,
    },
    Row {
        name: "NEBRASKA_APP_ID",
        read: |config| config.probe.app_id.clone(),
        default: "00000000-0000-0000-0000-000000000000",
        good: &[("an app", "an app")],
        bad: &[],
    },
    Row {
        name: "NEBRASKA_TRACK",
        read: |config| config.probe.track.clone(),
        default: "unspecified",
        good: &[("stable", "stable")],
        bad: &[],
    },
];

/// Any text is right for them.
const FREE: [&str; 3] = ["CURRENT_VERSION_FALLBACK", "NEBRASKA_APP_ID", "NEBRASKA_TRACK"];

fn rows() -> impl Iterator<Item = (&'static Setting, &'static Row)> {
    SETTINGS.iter().zip(ROWS)
}

fn with(name: &str, value: OsString) -> Result<Loaded, ConfigError> {
    Config::load([(OsString::from(format!("{PREFIX}{name}")), value)])
}

#[test]
fn each_setting_has_its_row() {
    let declared: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
    assert_eq!(ROWS.iter().map(|row| row.name).collect::<Vec<_>>(), declared);
    for row in ROWS {
        assert!(!row.good.is_empty(), "{}: no value that is taken", row.name);
        assert_eq!(row.bad.is_empty(), FREE.contains(&row.name), "{}", row.name);
    }
}

#[test]
fn unset_and_empty_mean_the_default() {
    let unset = load(&[]).unwrap();
    for (setting, row) in rows() {
        assert_eq!((row.read)(&unset.config), row.default, "{}", setting.name);
        let empty = load(&[(setting.name, "")]).unwrap();
        assert_eq!((row.read)(&empty.config), row.default, "{}", setting.name);
        assert_eq!(empty.effective, unset.effective, "{}", setting.name);
        if !setting.default.is_empty() {
            let said = load(&[(setting.name, setting.default)]).unwrap();
            assert_eq!((row.read)(&said.config), row.default, "{}", setting.name);
        }
    }
}

#[test]
fn each_is_overridden_and_alone() {
    let unset = load(&[]).unwrap();
    for (setting, row) in rows() {
        for (value, read) in row.good {
            let loaded = load(&[(setting.name, value)]).unwrap();
            assert_eq!((row.read)(&loaded.config), *read, "{}={value:?}", setting.name);
            assert_eq!(loaded.warnings, Vec::<String>::new());
            let others = |loaded: &Loaded| {
                let variable = format!("{PREFIX}{}", setting.name);
                let all = loaded.effective.iter().filter(|(name, _)| *name != variable);
                all.cloned().collect::<Vec<_>>()
            };
            assert_eq!(others(&loaded), others(&unset), "{}={value:?}", setting.name);
        }
    }
}

/// In one line, without what it may hide.
fn assert_names(problem: &ConfigError, setting: &Setting, value: &str) {
    let text = problem.to_string();
    assert!(text.starts_with(&format!("{PREFIX}{}: ", setting.name)), "{value:?}: {text}");
    assert!(!text.chars().any(char::is_control) && text.len() < 2200, "{value:?}: {text}");
    assert!(!text.contains("secret"), "{value:?}: {text}");
}

#[test]
fn a_malformed_value_ends_the_start_and_names_its_variable() {
    for (setting, row) in rows() {
        for value in row.bad {
            let loaded = load(&[(setting.name, value)]).map(|loaded| (row.read)(&loaded.config));
            assert_names(&loaded.expect_err(value), setting, value);
        }
        let not_utf8 = OsString::from_vec(vec![b'/', 0xff]);
        let problem = with(setting.name, not_utf8).unwrap_err();
        assert_names(&problem, setting, "not UTF-8");
        assert!(problem.to_string().ends_with("not UTF-8"), "{problem}");
    }
}

/// A kind of value is refused in every setting that has it.
#[test]
fn each_kind_has_values_that_are_none() {
    let nonsense = |kind| match kind {
        Kind::Text => None,
        Kind::Path => Some("relative"),
        Kind::Bool => Some("maybe"),
        Kind::Duration => Some("soon"),
        Kind::Url => Some("nowhere"),
        Kind::OneOf(_) => Some("neither"),
    };
    for (setting, row) in rows() {
        if let Some(value) = nonsense(setting.kind) {
            assert_names(&load(&[(setting.name, value)]).unwrap_err(), setting, value);
            assert!(!row.bad.is_empty());
        }
    }
}

#[test]
fn huge_values_are_taken_or_refused_in_a_few_words() {
    for (setting, _) in rows() {
        for unit in ["9", "x", "/x", "a.", "1m ", "https://x/", "\n", "\u{20ac}"] {
            let value = unit.repeat(200_000);
            if let Err(problem) = load(&[(setting.name, &value)]) {
                assert_names(&problem, setting, unit);
            }
        }
    }
}
