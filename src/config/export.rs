//! The watcher's environment, handed to the other units: they start from it and put their own over it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::PREFIX;

/// Where the watcher leaves its environment, in its `RuntimeDirectory=`.
pub const EXPORT_PATH: &str = "/run/trident-acl-agent/environment.json";

/// Variables that reach the network through libraries, beside our own.
const FOREIGN: [&str; 10] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Names and values.
pub type Environment = BTreeMap<String, String>;

/// Whether a variable belongs to the agent's settings in the wider sense.
fn is_exported(name: &str) -> bool {
    name.starts_with(PREFIX) || FOREIGN.contains(&name)
}

/// What of an environment is exported. What is not UTF-8 is no setting of ours, and stays where it is.
pub fn exported(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Environment {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    environment.into_iter().filter_map(text).filter(|(name, _)| is_exported(name)).collect()
}

/// The export as it was left; empty where there is none. Nothing but settings is taken from it.
///
/// # Errors
/// Unreadable, or not what the watcher writes.
pub fn read_export(path: &Path) -> std::io::Result<Environment> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(missing) if missing.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Environment::new());
        }
        Err(error) => return Err(error),
    };
    let environment: Environment = serde_json::from_slice(&text)?;
    Ok(environment.into_iter().filter(|(name, _)| is_exported(name)).collect())
}

/// What a unit lacks: exported, and not in its own environment, of which these are the names. An empty value
/// of its own counts: it means the default.
pub fn missing(export: Environment, own: &BTreeSet<OsString>) -> Environment {
    let own: BTreeSet<_> = own.iter().map(|name| one_case(name)).collect();
    export.into_iter().filter(|(name, _)| !own.contains(&one_case(OsStr::new(name)))).collect()
}

/// Who reads a proxy's variable knows it in either case: each stands for the other.
fn one_case(name: &OsStr) -> OsString {
    let upper = name.to_ascii_uppercase();
    let either = FOREIGN.iter().any(|foreign| upper == **foreign);
    if either { upper } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    fn os(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn a_unit_s_own_proxy_wins_in_either_case() {
        for (theirs, own) in [
            ("HTTPS_PROXY", "https_proxy"),
            ("https_proxy", "HTTPS_PROXY"),
            ("NO_PROXY", "no_proxy"),
            ("all_proxy", "ALL_PROXY"),
        ] {
            let lacks = |own: &str| missing(vars(&[(theirs, "")]), &BTreeSet::from([own.into()]));
            assert_eq!(lacks(own), Environment::new(), "{theirs} {own}");
            assert_eq!(lacks("trident_acl_agent_a"), vars(&[(theirs, "")]), "{theirs}");
        }
    }

    #[test]
    fn own_settings_win_and_nothing_else_travels() {
        use std::os::unix::ffi::OsStringExt;
        let not_utf8 = || OsString::from_vec(vec![b'a', 0xff]);
        let mut all = os(&[
            ("TRIDENT_ACL_AGENT_TRIDENT_SOCKET", "unix:///a"),
            ("TRIDENT_ACL_AGENT_ORCHESTRATION_STAGE_TIMEOUT", "1m"),
            ("TRIDENT_ACL_AGENT_NEBRASKA_TRACK", "theirs"),
            ("https_proxy", "http://proxy"),
            ("LD_PRELOAD", "/evil.so"),
            ("NOTIFY_SOCKET", "/run/x"),
        ]);
        all.push((not_utf8(), "value".into()));
        all.push(("NO_PROXY".into(), not_utf8()));
        let export = exported(all);
        let own = ["TRIDENT_ACL_AGENT_TRIDENT_SOCKET", "TRIDENT_ACL_AGENT_NEBRASKA_TRACK"];
        let own = own.into_iter().map(OsString::from).chain([not_utf8()]).collect();
        let added = missing(export, &own);
        assert_eq!(
            added,
            vars(&[
                ("TRIDENT_ACL_AGENT_ORCHESTRATION_STAGE_TIMEOUT", "1m"),
                ("https_proxy", "http://proxy")
            ])
        );
    }
}
