//! Asking, reporting, probing.

use std::time::Duration;

use super::answer::CheckAnswer;
use super::cookie::CookieJar;
use super::error::{Error, ReportError};
use super::event::Event;
use super::http::{Answer, Http};
use super::identity::{App, Arch, IdentityError, MachineId};
use super::offer::HashSource;
use super::reply::AppReply;
use super::request::{Content, Request};
use crate::config::{Config, Sha384Source};
use crate::contract::AGENT_VERSION;

/// Who asks, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This machine.
    pub machine_id: MachineId,
    /// Its architecture.
    pub arch: Arch,
    /// Name and version of this agent, such as `trident-acl-agent-0.1.0`.
    pub updater: String,
    /// Where an offer's SHA-384 is taken from.
    pub hash_source: HashSource,
    /// For one whole exchange, redirects and body included.
    pub deadline: Duration,
    /// The affinity cookie's file; `None` neither sends nor stores one.
    pub cookies: Option<CookieJar>,
}

/// Which update check of a stage this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The first: forgets the stored cookie and keeps the one that the answer sets.
    First,
    /// Any later one: sends the stored cookie and keeps it.
    Again,
}

impl Settings {
    /// As this node is configured. `machine_id`: the text of `/etc/machine-id`; `deadline`: of one exchange.
    ///
    /// # Errors
    /// The machine id is no identity.
    pub fn of(
        config: &Config,
        machine_id: &str,
        deadline: Duration,
    ) -> Result<Self, IdentityError> {
        Ok(Self {
            machine_id: MachineId::from_file_text(machine_id)?,
            arch: Arch::of_this_build(),
            updater: format!("trident-acl-agent-{AGENT_VERSION}"),
            hash_source: match config.sha384_source {
                Sha384Source::Labels => HashSource::Labels,
                Sha384Source::Hash => HashSource::Hash,
            },
            deadline,
            cookies: config.cookie_enabled.then(|| CookieJar::new(&config.cookie_path)),
        })
    }
}

/// A client for any number of update servers.
#[derive(Clone, Debug)]
pub struct Client {
    settings: Settings,
    http: Http,
}

impl Client {
    /// Takes proxies (`HTTPS_PROXY`, `NO_PROXY`) and CA certificates (`SSL_CERT_FILE`,
    /// `SSL_CERT_DIR`, else the system's) as they are now.
    pub fn new(settings: Settings) -> Result<Client, Error> {
        let http = Http::new(&settings.updater, settings.deadline)?;
        Ok(Client { settings, http })
    }

    /// Asks for an update from `version`.
    pub async fn check(
        &self,
        app: &App,
        version: &str,
        check: Check,
    ) -> Result<CheckAnswer, Error> {
        let answer = self.check_exchange(app, version, check).await?;
        CheckAnswer::read(app, &answer.body, self.settings.hash_source)
    }

    /// Tells the server of an event; `Ok` only if the server took it.
    pub async fn report(&self, app: &App, version: &str, event: &Event) -> Result<(), ReportError> {
        let answer = self.exchange(app, version, Content::Report(event)).await?;
        match AppReply::read(app, &answer.body)?.status {
            status if status == "ok" => Ok(()),
            status => Err(ReportError::NotTaken { server: app.server.clone(), status }),
        }
    }

    /// Asks for nothing: whether the server is there and knows the app. Leaves no trace at it.
    pub async fn probe(&self, app: &App, version: &str) -> Result<(), Error> {
        let answer = self.exchange(app, version, Content::Probe).await?;
        match AppReply::read(app, &answer.body)?.status {
            status if status == "ok" => Ok(()),
            status => Err(Error::AppRefused { server: app.server.clone(), status }),
        }
    }

    async fn check_exchange(
        &self,
        app: &App,
        version: &str,
        check: Check,
    ) -> Result<Answer, Error> {
        match (check, &self.settings.cookies) {
            (Check::First, Some(jar)) => {
                jar.clear();
                let xml = self.request(app, version, Content::Check).render()?;
                let answer = self.http.post(&app.server, xml, None).await?;
                // Before the XML is looked at: affinity holds for a broken answer too.
                jar.store(&answer.headers, &answer.origin);
                Ok(answer)
            }
            (Check::First, None) | (Check::Again, _) => {
                self.exchange(app, version, Content::Check).await
            }
        }
    }

    /// Sends with the stored cookie, if any.
    async fn exchange(
        &self,
        app: &App,
        version: &str,
        content: Content<'_>,
    ) -> Result<Answer, Error> {
        let jar = self.settings.cookies.as_ref();
        let cookie = jar.and_then(|jar| jar.load(&app.server.to_string()));
        let xml = self.request(app, version, content).render()?;
        self.http.post(&app.server, xml, cookie).await
    }

    fn request<'a>(&'a self, app: &'a App, version: &'a str, content: Content<'a>) -> Request<'a> {
        Request { settings: &self.settings, app, version, content }
    }
}
