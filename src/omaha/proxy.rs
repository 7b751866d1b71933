//! A proxy that the client cannot read is no proxy to it: it would go straight, without a word.

use http::Uri;
use url::Url;

/// Where the proxy of an https server is named; the first that is set counts.
const VARIABLES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// The variable that names a proxy which cannot be used. Its value may hold a password.
pub(crate) fn malformed_proxy() -> Option<&'static str> {
    find_malformed(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
}

fn find_malformed(value_of: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let set = |name: &&'static str| Some((*name, value_of(name)?));
    let (name, value) = VARIABLES.iter().find_map(set)?;
    (!value.is_empty() && !is_usable(&value)).then_some(name)
}

/// As the client reads it, and with a port that there can be.
fn is_usable(value: &str) -> bool {
    let Ok(uri) = value.parse::<Uri>() else { return false };
    let with_scheme =
        if uri.scheme().is_some() { value.to_owned() } else { format!("http://{value}") };
    let known = matches!(uri.scheme_str(), None | Some("http" | "https"));
    known && uri.authority().is_some() && Url::parse(&with_scheme).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_that_would_be_passed_over_is_found() {
        let all: [(&str, &str, bool); 14] = [
            ("HTTPS_PROXY", "", true),
            ("HTTPS_PROXY", "proxy.test:3128", true),
            ("HTTPS_PROXY", "http://u:p@proxy.test:3128/", true),
            ("https_proxy", "https://[fd00::1]:3128", true),
            ("HTTP_PROXY", "none of ours", true),
            ("HTTPS_PROXY", " ", false),
            ("HTTPS_PROXY", "http://proxy.test:3128 ", false),
            ("https_proxy", "http://", false),
            ("ALL_PROXY", "http:/proxy.test", false),
            ("all_proxy", "/proxy", false),
            ("HTTPS_PROXY", "http://proxy.test:port", false),
            ("HTTPS_PROXY", "http://proxy.test:99999", false),
            ("HTTPS_PROXY", "socks5://proxy.test", false),
            ("HTTPS_PROXY", "http://proxy.test\u{fffd}", false),
        ];
        for (variable, value, usable) in all {
            let found = find_malformed(|name| (name == variable).then(|| value.to_owned()));
            assert_eq!(found, (!usable).then_some(variable), "{variable}={value}");
        }
    }

    #[test]
    fn the_one_that_counts_is_judged() {
        let value = |name: &str| match name {
            "HTTPS_PROXY" => Some("proxy.test:1".to_owned()),
            _ => Some("http://".to_owned()),
        };
        assert_eq!(find_malformed(value), None);
    }
}
