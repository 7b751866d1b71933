//! One POST: https only, one deadline for all of it, a bounded body.

use std::error::Error as StdError;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::redirect::{Action, Attempt, Policy};
use reqwest::{Response, StatusCode};

use super::error::{Error, RedirectRefused};
use super::identity::Server;
use super::proxy::malformed_proxy;
use super::trust;
use crate::contract::origin;
use crate::steps::{self, Step};

/// Longest answer that is read.
const BODY_LIMIT: usize = 1024 * 1024;
/// Longest chain of redirects.
const REDIRECT_LIMIT: usize = 5;
/// Longest wait that a server may ask for.
const RETRY_AFTER_LIMIT: Duration = Duration::from_secs(60 * 60);

/// An HTTP client with one deadline per request.
#[derive(Clone, Debug)]
pub(super) struct Http {
    client: reqwest::Client,
    deadline: Duration,
}

/// A whole answer with status 200.
#[derive(Debug)]
pub(super) struct Answer {
    /// Who gave it, at the end of all redirects.
    pub(super) origin: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Http {
    /// Takes proxies and CA certificates from the environment and the system, as of now.
    pub(super) fn new(user_agent: &str, deadline: Duration) -> Result<Http, Error> {
        // rustls would panic instead.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(Error::NoTls);
        }
        if let Some(variable) = malformed_proxy() {
            return Err(Error::Proxy { variable });
        }
        let tls = trust::client_config().ok_or(Error::NoTrust)?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(user_agent)
            .https_only(true)
            .redirect(Policy::custom(judge_redirect))
            // The address that we come from may hold a secret.
            .referer(false)
            // Requests are minutes apart: an idle connection would be found dead.
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|error| Error::Setup(error.without_url()))?;
        Ok(Http { client, deadline })
    }

    /// Sends `xml` and reads the whole answer.
    pub(super) async fn post(
        &self,
        server: &Server,
        xml: Vec<u8>,
        cookie: Option<HeaderValue>,
    ) -> Result<Answer, Error> {
        // Cancelled by the deadline: drops the connection.
        let exchange = tokio::time::timeout(self.deadline, self.exchange(server, xml, cookie));
        match steps::awaited(Step::OmahaPost, "", exchange).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(Error::TimedOut { server: server.clone(), after: self.deadline }),
        }
    }

    async fn exchange(
        &self,
        server: &Server,
        xml: Vec<u8>,
        cookie: Option<HeaderValue>,
    ) -> Result<Answer, Error> {
        let mut request = self
            .client
            .post(server.url().clone())
            .header(CONTENT_TYPE, "text/xml; charset=utf-8")
            .header(ACCEPT, "text/xml, application/xml")
            .body(xml);
        if let Some(cookie) = cookie {
            request = request.header(COOKIE, cookie);
        }
        let response = request.send().await.map_err(|error| failed(server, error))?;
        if response.status() != StatusCode::OK {
            return Err(bad_status(server, &response));
        }
        let (origin, headers) = (origin(response.url()), response.headers().clone());
        Ok(Answer { origin, headers, body: read_body(server, response).await? })
    }
}

async fn read_body(server: &Server, mut response: Response) -> Result<Vec<u8>, Error> {
    let too_large = || Error::AnswerTooLarge { server: server.clone(), limit: BODY_LIMIT };
    if response.content_length().is_some_and(|announced| announced > BODY_LIMIT as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(server, error))? {
        if body.len() + chunk.len() > BODY_LIMIT {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Our own refusal of a redirect arrives wrapped in the client's error.
fn failed(server: &Server, error: reqwest::Error) -> Error {
    let server = server.clone();
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(refused) = cause.downcast_ref::<RedirectRefused>() {
            return Error::Redirect { server, source: *refused };
        }
        source = cause.source();
    }
    Error::Http { server, source: error.without_url() }
}

fn bad_status(server: &Server, response: &Response) -> Error {
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    Error::Status {
        server: server.clone(),
        status: response.status().as_u16(),
        retry_after: retry_after.and_then(|value| read_retry_after(value, Timestamp::now())),
    }
}

/// Seconds, or an HTTP date.
fn read_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    let wait = if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        Duration::from_secs(value.parse().unwrap_or(u64::MAX))
    } else {
        let then = DateTimeParser::new().parse_timestamp(value).ok()?;
        Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO)
    };
    Some(wait.min(RETRY_AFTER_LIMIT))
}

fn judge_redirect(attempt: Attempt<'_>) -> Action {
    let (status, scheme) = (attempt.status().as_u16(), attempt.url().scheme());
    match may_follow(status, scheme, attempt.previous().len()) {
        Ok(()) => attempt.follow(),
        Err(refused) => attempt.error(refused),
    }
}

/// `hops` counts this one too.
fn may_follow(status: u16, scheme: &str, hops: usize) -> Result<(), RedirectRefused> {
    if !matches!(status, 307 | 308) {
        return Err(RedirectRefused::MethodLost(status));
    }
    if scheme != "https" {
        return Err(RedirectRefused::NotHttps);
    }
    if hops > REDIRECT_LIMIT {
        return Err(RedirectRefused::TooMany);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date_and_bounded() {
        let now: Timestamp = "2026-06-29T12:00:00Z".parse().expect("a time");
        for (value, wait) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999999999999999", Some(3600)),
            ("Mon, 29 Jun 2026 12:01:00 GMT", Some(60)),
            ("Mon, 29 Jun 2026 11:00:00 GMT", Some(0)),
            ("-1", None),
            ("", None),
            ("soon", None),
        ] {
            assert_eq!(read_retry_after(value, now), wait.map(Duration::from_secs), "{value:?}");
        }
    }

    #[test]
    fn only_method_keeping_redirects_to_https_are_followed() {
        assert_eq!(may_follow(307, "https", 1), Ok(()));
        assert_eq!(may_follow(308, "https", 5), Ok(()));
        assert_eq!(may_follow(302, "https", 1), Err(RedirectRefused::MethodLost(302)));
        assert_eq!(may_follow(303, "https", 1), Err(RedirectRefused::MethodLost(303)));
        assert_eq!(may_follow(307, "http", 1), Err(RedirectRefused::NotHttps));
        assert_eq!(may_follow(307, "https", 6), Err(RedirectRefused::TooMany));
    }
}
