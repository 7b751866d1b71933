//! The request as XML: well-formed whatever the values hold.

use std::io;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, Event as XmlEvent};
use uuid::Uuid;

use super::client::Settings;
use super::error::Error;
use super::event::Event;
use super::identity::App;

/// The server takes no more.
const SIZE_LIMIT: usize = 64 * 1024;

/// What is asked or told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content<'a> {
    /// An update check.
    Check,
    /// An event.
    Report(&'a Event),
    /// Nothing: a bare `<app>`.
    Probe,
}

/// A request for one app.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) settings: &'a Settings,
    pub(super) app: &'a App,
    /// The version that the node runs.
    pub(super) version: &'a str,
    pub(super) content: Content<'a>,
}

type Out<'a> = &'a mut Writer<Vec<u8>>;

impl Request<'_> {
    /// The XML, at most 64 KiB.
    pub(super) fn render(&self) -> Result<Vec<u8>, Error> {
        let server = || self.app.server.clone();
        if let Some(what) = self.unspeakable() {
            return Err(Error::NotXml { server: server(), what });
        }
        let xml = self.write().map_err(|source| Error::Render { server: server(), source })?;
        match xml.len() {
            ..=SIZE_LIMIT => Ok(xml),
            size => Err(Error::RequestTooLarge { server: server(), size }),
        }
    }

    /// The first value with a character that XML cannot carry, not even escaped. Sent with another in its
    /// place, it would name another group or version at the server.
    fn unspeakable(&self) -> Option<&'static str> {
        let previous = match self.content {
            Content::Report(event) => event.previous_version(),
            Content::Check | Content::Probe => None,
        };
        let values = [
            ("the updater's name", self.settings.updater.as_str()),
            ("the running version", self.version),
            ("the app id", &self.app.app_id),
            ("the track", &self.app.track),
            ("the previous version", previous.unwrap_or_default()),
        ];
        values.into_iter().find(|(_, value)| !value.chars().all(is_legal)).map(|(what, _)| what)
    }

    fn write(&self) -> io::Result<Vec<u8>> {
        let mut out = Writer::new(Vec::new());
        out.write_event(XmlEvent::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        let session = Uuid::new_v4().to_string();
        out.create_element("request")
            .with_attribute(("protocol", "3.0"))
            .with_attribute(("version", self.settings.updater.as_str()))
            .with_attribute(("ismachine", "1"))
            .with_attribute(("sessionid", session.as_str()))
            .write_inner_content(|out| {
                self.write_os(out)?;
                self.write_app(out)
            })?;
        Ok(out.into_inner())
    }

    fn write_os(&self, out: Out<'_>) -> io::Result<()> {
        out.create_element("os")
            .with_attribute(("platform", "linux"))
            .with_attribute(("version", self.version))
            .with_attribute(("arch", self.settings.arch.as_str()))
            .write_empty()?;
        Ok(())
    }

    fn write_app(&self, out: Out<'_>) -> io::Result<()> {
        let app = out
            .create_element("app")
            .with_attribute(("appid", self.app.app_id.as_str()))
            .with_attribute(("version", self.version))
            .with_attribute(("track", self.app.track.as_str()))
            .with_attribute(("machineid", self.settings.machine_id.as_str()));
        match self.content {
            Content::Probe => app.write_empty()?,
            Content::Check => app.write_inner_content(write_update_check)?,
            Content::Report(event) => app.write_inner_content(|out| write_event(out, event))?,
        };
        Ok(())
    }
}

fn write_event(out: Out<'_>, event: &Event) -> io::Result<()> {
    let (kind, result) = event.pair();
    let element = out
        .create_element("event")
        .with_attribute(("eventtype", kind))
        .with_attribute(("eventresult", result));
    match event.previous_version() {
        None => {
            element.write_empty()?;
            Ok(())
        }
        Some(version) => {
            element.with_attribute(("previousversion", version)).write_empty()?;
            out.create_element("ping").with_attribute(("active", "1")).write_empty()?;
            write_update_check(out)
        }
    }
}

fn write_update_check(out: Out<'_>) -> io::Result<()> {
    out.create_element("updatecheck").write_empty()?;
    Ok(())
}

/// A character of XML 1.0.
fn is_legal(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests;
