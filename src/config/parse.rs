use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use url::Url;

use super::settings as names;
use super::{
    AllowedServers, Config, CurrentVersion, Fallback, Kind, Kubernetes, NodeName, PREFIX, Probe,
    SETTINGS, Setting, Sha384Source,
};
use crate::contract::{Keys, Message, NotASubdomain, is_dns_subdomain, origin};

/// A variable whose value cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{PREFIX}{name}: {problem}")]
pub struct ConfigError {
    pub name: &'static str,
    pub problem: String,
}

/// The checked settings, and what is worth saying about them.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    /// One line per unknown variable with our prefix.
    pub warnings: Vec<String>,
    /// Every setting's variable and effective value, redacted.
    pub effective: Vec<(String, String)>,
}

impl Config {
    /// Checks the whole environment.
    ///
    /// # Errors
    /// The first variable that is malformed.
    pub fn load(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Loaded, ConfigError> {
        let (values, unknown) = split(environment)?;
        let values = Values(values);
        Ok(Loaded {
            config: values.config()?,
            warnings: unknown.iter().map(|name| warning(name)).collect(),
            effective: values.effective(),
        })
    }
}

/// A shorter heartbeat would be one write for each that comes back on the watch.
const SHORTEST_BEAT: Duration = Duration::from_secs(1);
/// In seconds, as a duration's `years` are read.
const YEAR: u64 = 31_557_600;
/// Most characters of an unknown variable's name that are repeated.
const MAX_NAME: usize = 64;
/// Longest path that a socket's address has room for, in bytes.
const MAX_SOCKET: usize = 107;

type Given = BTreeMap<&'static str, String>;

/// Our variables that are set and not empty, and the names of those that we do not know.
fn split(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<(Given, Vec<String>), ConfigError> {
    let mut given = Given::new();
    let mut unknown = Vec::new();
    for (name, value) in environment {
        let name = name.to_string_lossy();
        let Some(name) = name.strip_prefix(PREFIX) else { continue };
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
            unknown.push(name.chars().take(MAX_NAME).collect());
            continue;
        };
        let value = value.into_string().map_err(|_bytes| error(setting.name, "not UTF-8"))?;
        if !value.is_empty() {
            given.insert(setting.name, value);
        }
    }
    unknown.sort();
    Ok((given, unknown))
}

fn warning(name: &str) -> String {
    let near = SETTINGS.iter().map(|setting| setting.name);
    let near = near.max_by(|a, b| likeness(a, name).total_cmp(&likeness(b, name)));
    format!(
        "unknown setting {PREFIX}{}, ignoring it; the nearest known one is {PREFIX}{}",
        name.escape_default(),
        near.unwrap_or_default()
    )
}

/// By their letters; the known name's first words may be left out.
fn likeness(known: &str, name: &str) -> f64 {
    let name = name.to_ascii_uppercase();
    let rests = known.match_indices('_').filter_map(|(at, _)| known.get(at + 1..));
    let rests = rests.chain([known]).map(|rest| strsim::normalized_levenshtein(rest, &name));
    rests.fold(0.0, f64::max)
}

/// On one line, whatever the value was.
fn error(name: &'static str, problem: impl AsRef<str>) -> ConfigError {
    ConfigError { name, problem: Message::new(problem.as_ref()).into() }
}

/// Of a file, and the same whatever directory the program was started in.
fn is_absolute(path: &str) -> bool {
    path.starts_with('/') && !path.ends_with('/') && Path::new(path).file_name().is_some()
}

struct Values(Given);

impl Values {
    fn config(&self) -> Result<Config, ConfigError> {
        let keys = Keys::new(&self.text(names::ANNOTATION_PREFIX))
            .map_err(|problem| error(names::ANNOTATION_PREFIX, problem.to_string()))?;
        Ok(Config {
            sha384_source: match self.one_of(names::SHA384_SOURCE)?.as_str() {
                "hash" => Sha384Source::Hash,
                _ => Sha384Source::Labels,
            },
            keys,
            current_version: self.current_version()?,
            kubernetes: self.kubernetes()?,
            trident_socket: self.socket()?,
            state_path: self.path(names::STATE_PATH)?,
            cookie_enabled: self.bool(names::COOKIE_ENABLED)?,
            cookie_path: self.path(names::COOKIE_PATH)?,
            stage_timeout: self.duration(names::STAGE_TIMEOUT)?,
            finalize_timeout: self.duration(names::FINALIZE_TIMEOUT)?,
            heartbeat_interval: self.duration(names::HEARTBEAT_INTERVAL)?.max(SHORTEST_BEAT),
            publish_max_wait: self.duration(names::PUBLISH_MAX_WAIT)?,
            node_gone_max_wait: self.optional(names::NODE_GONE_MAX_WAIT, Self::duration)?,
            allowed_servers: AllowedServers::parse(&self.text(names::ALLOWED_SERVERS))
                .map_err(|problem| error(names::ALLOWED_SERVERS, problem))?,
            probe: Probe {
                endpoint: self.url(names::PROBE_ENDPOINT)?,
                app_id: self.text(names::PROBE_APP_ID),
                track: self.text(names::PROBE_TRACK),
            },
        })
    }

    fn kubernetes(&self) -> Result<Kubernetes, ConfigError> {
        // Checked whether it is used or not, as every setting is.
        let certificate = self.path(names::KUBELET_CERT_PATH)?;
        let source = self.one_of(names::NODE_NAME_SOURCE)?;
        let node_name = match self.optional(names::NODE_NAME, Self::name)? {
            Some(name) => NodeName::Explicit(name),
            None if source == "hostname" => NodeName::Hostname,
            None => NodeName::KubeletCert(certificate),
        };
        Ok(Kubernetes {
            api_server: self.optional(names::API_SERVER, Self::url)?,
            kubeconfig: self.path(names::KUBECONFIG)?,
            node_name,
            validate_node_uuid: self.bool(names::VALIDATE_NODE_UUID)?,
        })
    }

    fn current_version(&self) -> Result<CurrentVersion, ConfigError> {
        let fallback = match self.text(names::VERSION_FALLBACK).as_str() {
            "always" => Fallback::Zero,
            "error" => Fallback::Error,
            other => Fallback::Verbatim(other.to_owned()),
        };
        let key = self.text(names::VERSION_KEY);
        let blank = |c: char| c.is_whitespace() || c.is_control();
        if key.contains('=') || key.contains(blank) || key.starts_with('#') {
            return Err(error(names::VERSION_KEY, "no KEY=VALUE line can have this key"));
        }
        Ok(CurrentVersion { path: self.path(names::VERSION_PATH)?, key, fallback })
    }

    fn socket(&self) -> Result<String, ConfigError> {
        let socket = self.text(names::TRIDENT_SOCKET);
        let path = socket.strip_prefix("unix://").unwrap_or_default();
        if !is_absolute(path) {
            Err(error(names::TRIDENT_SOCKET, "must be unix:// and an absolute path"))
        } else if path.len() > MAX_SOCKET {
            let why = format!("the path must have at most {MAX_SOCKET} bytes");
            Err(error(names::TRIDENT_SOCKET, why))
        } else {
            Ok(socket)
        }
    }

    fn name(&self, name: &'static str) -> Result<String, ConfigError> {
        let text = self.text(name);
        match is_dns_subdomain(&text) {
            true => Ok(text),
            false => Err(error(name, NotASubdomain.to_string())),
        }
    }

    fn text(&self, name: &'static str) -> String {
        self.0.get(name).cloned().unwrap_or_else(|| default(name).to_owned())
    }

    fn path(&self, name: &'static str) -> Result<PathBuf, ConfigError> {
        let text = self.text(name);
        match is_absolute(&text) {
            true => Ok(PathBuf::from(text)),
            false => Err(error(name, "must be an absolute path of a file")),
        }
    }

    fn bool(&self, name: &'static str) -> Result<bool, ConfigError> {
        match self.text(name).to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(error(name, "must be true or false")),
        }
    }

    fn duration(&self, name: &'static str) -> Result<Duration, ConfigError> {
        let text = self.text(name);
        let duration = humantime::parse_duration(&text).map_err(|problem| {
            error(name, format!("not a duration such as 20m or 1h 30m: {problem}"))
        })?;
        // Sums of these must not overflow a clock, and systemd takes microseconds in 64 bits.
        const MAX: Duration = Duration::from_secs(10 * YEAR);
        if duration.is_zero() || duration > MAX {
            return Err(error(name, "must be more than zero and at most ten years"));
        }
        Ok(duration)
    }

    fn url(&self, name: &'static str) -> Result<Url, ConfigError> {
        // The parser's own error never holds the text, which may hold a password.
        let url = Url::parse(&self.text(name))
            .map_err(|problem| error(name, format!("not a URL: {problem}")))?;
        if !matches!(url.scheme(), "https" | "http") || url.host_str().is_none() {
            return Err(error(name, "must be an http or https URL with a host"));
        }
        // The clients know fewer characters than the parser.
        match url.as_str().parse::<http::Uri>() {
            Ok(_) => Ok(url),
            Err(problem) => Err(error(name, format!("not a URL for a client: {problem}"))),
        }
    }

    fn one_of(&self, name: &'static str) -> Result<String, ConfigError> {
        let value = self.text(name);
        match declared(name).map(|setting| setting.kind) {
            Some(Kind::OneOf(words)) if !words.contains(&value.as_str()) => {
                Err(error(name, format!("must be one of: {}", words.join(", "))))
            }
            _ => Ok(value),
        }
    }

    fn optional<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&Self, &'static str) -> Result<T, ConfigError>,
    ) -> Result<Option<T>, ConfigError> {
        self.0.contains_key(name).then(|| parse(self, name)).transpose()
    }

    fn effective(&self) -> Vec<(String, String)> {
        SETTINGS
            .iter()
            .map(|setting| {
                let value = match (setting.kind, self.text(setting.name)) {
                    (_, value) if value.is_empty() => "(unset)".to_owned(),
                    (Kind::Url, value) => Url::parse(&value)
                        .map_or_else(|_| "(malformed)".to_owned(), |url| origin(&url)),
                    (_, value) => value.escape_debug().to_string(),
                };
                (format!("{PREFIX}{}", setting.name), value)
            })
            .collect()
    }
}

fn declared(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

fn default(name: &str) -> &'static str {
    declared(name).map(|setting| setting.default).unwrap_or_default()
}
