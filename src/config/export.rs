//! The watcher's environment, handed to the other units: they start from it and put their own over it.

use std::collections::BTreeMap;
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

/// What of an environment is exported.
pub fn exported(environment: impl IntoIterator<Item = (String, String)>) -> Environment {
    environment.into_iter().filter(|(name, _)| is_exported(name)).collect()
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
    Ok(exported(environment))
}

/// What a unit lacks: exported, and not in its own environment. An empty value of its own counts: it means
/// the default.
pub fn missing(export: Environment, own: &Environment) -> Environment {
    export.into_iter().filter(|(name, _)| !own.contains_key(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn own_settings_win_and_nothing_else_travels() {
        let export = exported(vars(&[
            ("TRIDENT_ACL_AGENT_TRIDENT_SOCKET", "unix:///a"),
            ("TRIDENT_ACL_AGENT_ORCHESTRATION_STAGE_TIMEOUT", "1m"),
            ("https_proxy", "http://proxy"),
            ("LD_PRELOAD", "/evil.so"),
            ("NOTIFY_SOCKET", "/run/x"),
        ]));
        let own = vars(&[("TRIDENT_ACL_AGENT_TRIDENT_SOCKET", "")]);
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
