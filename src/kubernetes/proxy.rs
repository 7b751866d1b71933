//! Which proxy leads to the API server. kube holds `NO_PROXY` against the proxy's own address, so that is
//! decided here.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use thiserror::Error;
use url::Url;

/// A proxy that cannot be used; never says its address, which may hold a password.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProxyError {
    #[error("the proxy's address is no URL")]
    NoUrl,
    #[error("the proxy must be an http:// one, not {scheme}://")]
    Scheme { scheme: String },
}

/// The one that the kubeconfig names, else the one of the environment unless that excludes the server.
///
/// # Errors
/// [`ProxyError`].
pub(super) fn proxy(named: Option<&str>, server: &Uri) -> Result<Option<Uri>, ProxyError> {
    choose(named, server, |name| std::env::var(name).ok())
}

fn choose(
    named: Option<&str>,
    server: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, ProxyError> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return parse(named).map(Some);
    }
    let either = |upper: &str| {
        [upper.to_owned(), upper.to_lowercase()]
            .iter()
            .find_map(|name| variable(name).filter(|value| !value.trim().is_empty()))
    };
    let own = if server.scheme_str() == Some("http") { "HTTP_PROXY" } else { "HTTPS_PROXY" };
    let Some(proxy) = either(own).or_else(|| either("ALL_PROXY")) else {
        return Ok(None);
    };
    if is_excluded(server, &either("NO_PROXY").unwrap_or_default()) {
        Ok(None)
    } else {
        parse(&proxy).map(Some)
    }
}

fn is_excluded(server: &Uri, no_proxy: &str) -> bool {
    let parts: Vec<_> = no_proxy.split(',').filter_map(|part| for_port(part, server)).collect();
    // The matcher knows hosts, domains, addresses and networks; a star is nothing to it where the server is
    // an address.
    let any = "http://any.invalid";
    let matcher = Matcher::builder().all(any).no(parts.join(",")).build();
    parts.contains(&"*") || matcher.intercept(server).is_none()
}

/// The part without its port, if that is the server's.
fn for_port<'a>(part: &'a str, server: &Uri) -> Option<&'a str> {
    let part = part.trim();
    match part.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            let usual = if server.scheme_str() == Some("http") { 80 } else { 443 };
            let asked = Some(server.port_u16().unwrap_or(usual));
            let host = host.trim_start_matches('[').trim_end_matches(']');
            (port.parse().ok() == asked).then_some(host)
        }
        _ => Some(part.trim_start_matches('[').trim_end_matches(']')),
    }
}

fn parse(text: &str) -> Result<Uri, ProxyError> {
    let text = text.trim();
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    // The one knows what a port is, the other is what is needed.
    let url = Url::parse(&text).map_err(|_quoting| ProxyError::NoUrl)?;
    match url.scheme() {
        "http" => url.as_str().parse().map_err(|_quoting| ProxyError::NoUrl),
        scheme => Err(ProxyError::Scheme { scheme: scheme.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: &str = "http://u:s3cret@proxy.test:3128";

    fn chosen(
        named: Option<&str>,
        server: &str,
        variables: &[(&str, &str)],
    ) -> Result<Option<String>, ProxyError> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let server = server.parse().expect("a server");
        choose(named, &server, variable).map(|uri| uri.map(|uri| uri.to_string()))
    }

    #[test]
    fn the_proxy_of_the_environment() {
        let api = "https://api.test:6443";
        for (name, server, variable, value, expected) in [
            ("nothing", api, "", P, false),
            ("empty", api, "HTTPS_PROXY", "", false),
            ("blank", api, "https_proxy", " ", false),
            ("upper case", api, "HTTPS_PROXY", P, true),
            ("lower case", api, "https_proxy", P, true),
            ("for all", api, "ALL_PROXY", P, true),
            ("for all in lower case", api, "all_proxy", P, true),
            ("of another scheme", api, "HTTP_PROXY", P, false),
            ("of plain HTTP", "http://api.test", "http_proxy", P, true),
        ] {
            let used = chosen(None, server, &[(variable, value)]).expect(name);
            assert_eq!(used.is_some(), expected, "{name}");
        }
    }

    #[test]
    fn what_the_environment_excludes() {
        let (api, v4, v6) = ("https://api.test:6443", "https://10.0.0.1", "https://[fd00::1]:6443");
        for (server, no_proxy, expected) in [
            (api, "", false),
            (api, "api.test", true),
            (api, "x, .test", true),
            (api, "*", true),
            (api, "b.test", false),
            // kube would take it for the proxy that is not to be used.
            (api, "proxy.test", false),
            (api, ",,api.test,", true),
            (api, "api.test:6443", true),
            (api, "api.test:443", false),
            ("https://api.test", ".test:443", true),
            (v4, "10.0.0.1", true),
            (v4, "10.0.0.0/8", true),
            (v4, "11.0.0.0/8", false),
            (v4, "x,*", true),
            (v6, "fd00::1", true),
            (v6, "[fd00::1]:6443", true),
            (v6, "fd00::/8", true),
        ] {
            for variable in ["NO_PROXY", "no_proxy"] {
                let variables = [("HTTPS_PROXY", P), (variable, no_proxy)];
                let used = chosen(None, server, &variables).expect(no_proxy);
                assert_eq!(used.is_none(), expected, "{server} {variable}={no_proxy}");
            }
        }
    }

    #[test]
    fn the_kubeconfig_names_one_for_this_server() {
        let variables = [("HTTPS_PROXY", P), ("NO_PROXY", "*")];
        let used = chosen(Some("http://named.test:1"), "https://api.test", &variables);
        assert_eq!(used, Ok(Some("http://named.test:1/".to_owned())));
        assert_eq!(chosen(Some(""), "https://api.test", &variables), Ok(None));
    }

    #[test]
    fn one_that_cannot_be_used_is_refused_without_its_password() {
        let cases = [
            ("u:s3cret@proxy.test:3128", Ok(())),
            ("socks5://u:s3cret@p", Err("the proxy must be an http:// one, not socks5://")),
            ("https://u:s3cret@p", Err("the proxy must be an http:// one, not https://")),
            ("http://u:s3cret@p:port/", Err("the proxy's address is no URL")),
            ("http://", Err("the proxy's address is no URL")),
        ];
        for (proxy, expected) in cases {
            let used = chosen(None, "https://api.test", &[("HTTPS_PROXY", proxy)]);
            let used = used.map(drop).map_err(|error| error.to_string());
            assert_eq!(used, expected.map_err(str::to_owned), "{proxy}");
        }
    }
}
