//! The settings' values: what is taken can be used, what is not is said in a line that names the variable.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use trident_acl_agent::config::{Config, PREFIX, SETTINGS};
use trident_acl_agent::trident::Trident;

use crate::mutate;

const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A setting by its number, and a value.
const SEEDS: [&str; 36] = [
    "\u{0}labels",
    "\u{0}hash",
    "\u{1}acl.contoso.com",
    "\u{2}/etc/my-app-release",
    "\u{3}BUILD_VERSION",
    "\u{4}always",
    "\u{4}error",
    "\u{5}https://u:p@api:6443/x?y#z",
    "\u{6}/etc/kubeconfig",
    "\u{7}node-1.example",
    "\u{8}kubelet-cert",
    "\u{9}/var/lib/kubelet/pki/x.pem",
    "\u{a}TRUE",
    "\u{b}unix:///run/trident/t.sock",
    "\u{c}/srv/state.json",
    "\u{d}false",
    "\u{e}/srv/cookie",
    "\u{f}1h 30m",
    "\u{10}10m",
    "\u{11}60s",
    "\u{12}1m",
    "\u{13}2days",
    "\u{14}updates.example.com, .example.org:8443,[::1]:443",
    "\u{15}https://x/v1/update",
    // Parts to put in anywhere.
    "https://",
    "http://[::1]:1/",
    "unix:///",
    "/",
    ".",
    ",",
    ":443",
    "\n",
    "%41",
    "\u{e4}",
    "ns",
    "99999999999999999999",
];

#[test]
fn settings() {
    mutate::each(&SEEDS, |bytes| {
        let Some((number, value)) = bytes.split_first() else { return };
        let value: Vec<u8> = value.iter().copied().filter(|byte| *byte != 0).collect();
        let setting = &SETTINGS[usize::from(*number) % SETTINGS.len()];
        let name = OsString::from(format!("{PREFIX}{}", setting.name));
        match Config::load([(name, OsStr::from_bytes(&value).to_owned())]) {
            Err(problem) => {
                assert_eq!(problem.name, setting.name);
                let text = problem.to_string();
                assert!(!text.chars().any(char::is_control) && text.len() < 2200, "{text}");
            }
            Ok(loaded) => {
                assert!(loaded.warnings.is_empty());
                let said = format!("{:?}", loaded.effective);
                assert!(!said.contains('\n') && loaded.effective.len() == SETTINGS.len());
                assert_usable(&loaded.config);
            }
        }
    });
}

fn assert_usable(config: &Config) {
    assert!(Trident::connect(&config.trident_socket).is_ok(), "{}", config.trident_socket);
    if let Some(server) = &config.kubernetes.api_server {
        assert!(server.as_str().parse::<http::Uri>().is_ok(), "{server}");
        assert!(!config.allowed_servers.allows(server) || server.has_host());
    }
    let all = [
        config.stage_timeout,
        config.finalize_timeout,
        config.heartbeat_interval,
        config.publish_max_wait,
        config.node_gone_max_wait.unwrap_or(TEN_YEARS),
    ];
    assert!(all.iter().all(|it| !it.is_zero() && *it <= TEN_YEARS), "{all:?}");
    let paths = [&config.state_path, &config.cookie_path, &config.kubernetes.kubeconfig];
    assert!(paths.iter().all(|path| path.is_absolute() && path.file_name().is_some()));
}
