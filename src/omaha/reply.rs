//! The server's answer: what it says of each app. Unknown words are kept, never refused.

use super::error::Error;
use super::identity::App;
use super::xml::{self, Element, XmlError};

/// A status in an answer goes into messages, so it is kept short.
const STATUS_LIMIT: usize = 128;

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    apps: Vec<AppReply>,
}

/// What the answer says of one app.
#[derive(Debug)]
pub(super) struct AppReply {
    app_id: String,
    /// `ok`, or a refusal.
    pub(super) status: String,
    /// The answer to an update check.
    pub(super) update: Option<Update>,
}

/// The answer to an update check.
#[derive(Debug, Default)]
pub(super) struct Update {
    /// `ok`, `noupdate` or an error.
    pub(super) status: String,
    /// Where packages lie.
    pub(super) codebase: Option<String>,
    /// The offered version.
    pub(super) version: Option<String>,
    /// Labels of the manifest.
    pub(super) labels: Vec<Label>,
    /// The image: the first package.
    pub(super) package: Option<Package>,
}

/// A package of an update.
#[derive(Debug, Default)]
pub(super) struct Package {
    /// The name, a URL reference.
    pub(super) name: String,
    /// The legacy hash.
    pub(super) hash: Option<String>,
    /// Labels of the package.
    pub(super) labels: Vec<Label>,
}

/// A name and a value.
#[derive(Debug)]
pub(super) struct Label {
    pub(super) name: String,
    pub(super) value: String,
}

impl Reply {
    /// Reads a whole answer.
    pub(super) fn parse(body: &[u8]) -> Result<Reply, XmlError> {
        let root = xml::read(body)?;
        if !root.is("response") {
            return Err(XmlError::NotAResponse);
        }
        Ok(Reply { apps: root.children("app").map(app).collect() })
    }

    /// What the answer says of one app.
    pub(super) fn into_app(self, app_id: &str) -> Option<AppReply> {
        self.apps.into_iter().find(|app| app.app_id.eq_ignore_ascii_case(app_id))
    }
}

impl AppReply {
    /// What a whole answer says of our app.
    pub(super) fn read(app: &App, body: &[u8]) -> Result<AppReply, Error> {
        let server = || app.server.clone();
        let reply =
            Reply::parse(body).map_err(|source| Error::Malformed { server: server(), source })?;
        reply.into_app(&app.app_id).ok_or_else(|| Error::AppMissing { server: server() })
    }
}

fn app(element: &Element) -> AppReply {
    AppReply {
        app_id: owned(element, "appid"),
        status: status(element),
        update: element.child("updatecheck").map(update),
    }
}

fn update(element: &Element) -> Update {
    let manifest = element.child("manifest");
    let packages = manifest.and_then(|manifest| manifest.child("packages"));
    let urls = element.child("urls");
    Update {
        status: status(element),
        codebase: urls.and_then(|urls| urls.child("url")).map(|url| owned(url, "codebase")),
        version: manifest.map(|manifest| owned(manifest, "version")),
        labels: manifest.map(labels).unwrap_or_default(),
        package: packages.and_then(|packages| packages.child("package")).map(package),
    }
}

fn package(element: &Element) -> Package {
    Package {
        name: owned(element, "name"),
        hash: element.attribute("hash").map(str::to_owned),
        labels: labels(element),
    }
}

/// `<labels><label name|key=".." value=".."/>` or `<label name|key="..">..</label>`.
fn labels(parent: &Element) -> Vec<Label> {
    let all = parent.children("labels").flat_map(|labels| labels.children("label"));
    all.map(|label| Label {
        name: label.attribute("name").or(label.attribute("key")).unwrap_or_default().to_owned(),
        value: label.attribute("value").unwrap_or(label.text()).trim().to_owned(),
    })
    .collect()
}

fn owned(element: &Element, name: &str) -> String {
    element.attribute(name).unwrap_or_default().to_owned()
}

/// A status, harmless in a message.
fn status(element: &Element) -> String {
    let status = element.attribute("status").unwrap_or("(no status)");
    status.chars().filter(|c| !c.is_control()).take(STATUS_LIMIT).collect()
}
