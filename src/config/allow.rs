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
    /// Comma-separated: `updates.example.com`, `.example.com`, each with an optional `:port`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let patterns = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        patterns.map(Pattern::parse).collect::<Result<_, _>>().map(Self)
    }

    pub fn allows(&self, server: &Url) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| pattern.matches(server))
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a host, a .domain, or either with a :port");
        let (and_below, rest) = match text.strip_prefix('.') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        // A URL parser knows IPv6 brackets, ports and IDNA; the trailing slash keeps it to the authority.
        let url = Url::parse(&format!("https://{rest}/")).map_err(|_no_host| wrong())?;
        let plain = url.path() == "/" && url.username().is_empty() && url.query().is_none();
        match url.host() {
            Some(host) if plain => {
                Ok(Self { host: host.to_string(), and_below, port: explicit_port(rest, &url) })
            }
            _ => Err(wrong()),
        }
    }

    fn matches(&self, server: &Url) -> bool {
        let port_fits = self.port.is_none_or(|port| server.port_or_known_default() == Some(port));
        let host = server.host().map(|host: Host<&str>| host.to_string()).unwrap_or_default();
        let below = || host.strip_suffix(&self.host).is_some_and(|rest| rest.ends_with('.'));
        port_fits && (host == self.host || (self.and_below && below()))
    }
}

/// A URL drops the default port, so `:443` has to be read off the text.
fn explicit_port(text: &str, url: &Url) -> Option<u16> {
    url.port().or_else(|| text.ends_with(":443").then_some(443))
}
