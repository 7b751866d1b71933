use url::{Host, Url};

/// The hosts that a request's `server` may name; empty means any.
#[derive(Debug, Clone, Default)]
pub struct AllowedServers(Vec<Pattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    /// Lower-case, as a URL would hold it.
    host: String,
    /// A leading dot: the domain itself and all below it.
    and_below: bool,
    port: Option<u16>,
}

impl AllowedServers {
    /// Comma-separated: `updates.example.com`, `.example.com`, each with an optional `:port`. The text is not
    /// repeated: what is no host may be a URL with a password.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).enumerate().filter(|(_, part)| !part.is_empty());
        let wrong =
            |at| format!("entry {} is not a host, a .domain, or either with a :port", at + 1);
        let patterns = parts.map(|(at, part)| Pattern::parse(part).ok_or_else(|| wrong(at)));
        let patterns: Vec<_> = patterns.collect::<Result<_, _>>()?;
        match patterns.is_empty() && !text.is_empty() {
            // Empty would mean any.
            true => Err("there is no host in it".to_owned()),
            false => Ok(Self(patterns)),
        }
    }

    pub fn allows(&self, server: &Url) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| pattern.matches(server))
    }
}

impl Pattern {
    fn parse(text: &str) -> Option<Self> {
        let (and_below, rest) = match text.strip_prefix('.') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let dots = rest.starts_with('.') || rest.contains("..");
        if dots || rest.contains(['/', '\\', '@', '?', '#', '*']) || rest.ends_with(':') {
            return None;
        }
        // A URL parser knows IPv6 brackets, ports and IDNA; the trailing slash keeps it to the authority.
        let url = Url::parse(&format!("https://{rest}/")).ok()?;
        let host = url.host()?.to_string();
        Some(Self { host, and_below, port: explicit_port(rest, &url) })
    }

    fn matches(&self, server: &Url) -> bool {
        let port_fits = self.port.is_none_or(|port| server.port_or_known_default() == Some(port));
        let host = server.host().map(|host: Host<&str>| host.to_string()).unwrap_or_default();
        let below = || host.strip_suffix(&self.host).is_some_and(|rest| rest.ends_with('.'));
        port_fits && (host == self.host || (self.and_below && below()))
    }
}

/// A URL drops the default port, so whether there is one has to be read off the text.
fn explicit_port(text: &str, url: &Url) -> Option<u16> {
    let after_host = text.rsplit(']').next().unwrap_or_default();
    after_host.contains(':').then(|| url.port_or_known_default()).flatten()
}
