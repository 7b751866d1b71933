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
        let xml = self.write().map_err(|source| Error::Render { server: server(), source })?;
        match xml.len() {
            ..=SIZE_LIMIT => Ok(xml),
            size => Err(Error::RequestTooLarge { server: server(), size }),
        }
    }

    fn write(&self) -> io::Result<Vec<u8>> {
        let mut out = Writer::new(Vec::new());
        out.write_event(XmlEvent::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        let session = Uuid::new_v4().to_string();
        out.create_element("request")
            .with_attribute(("protocol", "3.0"))
            .with_attribute(("version", legal(&self.settings.updater).as_str()))
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
            .with_attribute(("version", legal(self.version).as_str()))
            .with_attribute(("arch", self.settings.arch.as_str()))
            .write_empty()?;
        Ok(())
    }

    fn write_app(&self, out: Out<'_>) -> io::Result<()> {
        let app = out
            .create_element("app")
            .with_attribute(("appid", legal(&self.app.app_id).as_str()))
            .with_attribute(("version", legal(self.version).as_str()))
            .with_attribute(("track", legal(&self.app.track).as_str()))
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
            let version = legal(version);
            element.with_attribute(("previousversion", version.as_str())).write_empty()?;
            out.create_element("ping").with_attribute(("active", "1")).write_empty()?;
            write_update_check(out)
        }
    }
}

fn write_update_check(out: Out<'_>) -> io::Result<()> {
    out.create_element("updatecheck").write_empty()?;
    Ok(())
}

/// What XML 1.0 cannot hold, not even escaped, becomes U+FFFD.
fn legal(value: &str) -> String {
    let keep = |c: char| match c {
        '\t' | '\n' | '\r' | '\u{20}'..='\u{fffd}' | '\u{10000}'.. => c,
        _ => char::REPLACEMENT_CHARACTER,
    };
    value.chars().map(keep).collect()
}

#[cfg(test)]
mod tests;
