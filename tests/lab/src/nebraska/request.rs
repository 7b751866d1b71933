//! An Omaha request as the server's own XML decoder would read it.

use std::collections::BTreeMap;
use std::time::Instant;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// The server reads no more than this.
pub(super) const MAX_REQUEST: usize = 64 * 1024;

/// Attributes by name.
pub type Attributes = BTreeMap<String, String>;

/// One request that could be parsed.
#[derive(Clone, Debug)]
pub struct OmahaRequest {
    /// When its body was complete.
    pub at: Instant,
    /// Index of its record in `Nebraska::http_requests`.
    pub record: usize,
    /// The `Cookie` header.
    pub cookie: Option<String>,
    /// The XML as it came.
    pub raw: String,
    /// HTTP status of the answer; `None` while there is none.
    pub http_status: Option<u16>,
    /// Whether the state machine saw it; not so when a fault answered.
    pub processed: bool,
    /// Attributes of `<request>`: `protocol`, `version` (the updater), `ismachine`, `sessionid`, …
    pub attributes: Attributes,
    /// Attributes of `<os>`: `platform`, `version`, `arch`, …
    pub os: Option<Attributes>,
    /// Every `<app>`.
    pub apps: Vec<AppRequest>,
}

/// One `<app>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppRequest {
    /// Its attributes: `appid`, `version`, `track`, `machineid`, …
    pub attributes: Attributes,
    /// Every `<event>`.
    pub events: Vec<EventRequest>,
    /// Attributes of `<ping>`.
    pub ping: Option<Attributes>,
    /// Attributes of `<updatecheck>`.
    pub update_check: Option<Attributes>,
}

/// One `<event>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRequest {
    /// `eventtype`.
    pub event_type: i64,
    /// `eventresult`.
    pub event_result: i64,
    /// `previousversion`.
    pub previous_version: Option<String>,
    /// All attributes as they came.
    pub attributes: Attributes,
}

impl OmahaRequest {
    /// The first app.
    pub fn app(&self) -> Option<&AppRequest> {
        self.apps.first()
    }

    /// (type, result) of every event of every app.
    pub fn events(&self) -> Vec<(i64, i64)> {
        let events = self.apps.iter().flat_map(|app| &app.events);
        events.map(|event| (event.event_type, event.event_result)).collect()
    }

    /// `version` of `<request>`.
    pub fn updater_version(&self) -> Option<&str> {
        self.attributes.get("version").map(String::as_str)
    }

    /// `sessionid` of `<request>`.
    pub fn session_id(&self) -> Option<&str> {
        self.attributes.get("sessionid").map(String::as_str)
    }

    /// `arch` of `<os>`.
    pub fn os_arch(&self) -> Option<&str> {
        self.os.as_ref()?.get("arch").map(String::as_str)
    }

    /// `version` of `<os>`.
    pub fn os_version(&self) -> Option<&str> {
        self.os.as_ref()?.get("version").map(String::as_str)
    }
}

impl AppRequest {
    fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map(String::as_str).unwrap_or_default()
    }

    /// `appid`, empty where absent; so are the next ones.
    pub fn app_id(&self) -> &str {
        self.attribute("appid")
    }

    /// `version`.
    pub fn version(&self) -> &str {
        self.attribute("version")
    }

    /// `track`.
    pub fn track(&self) -> &str {
        self.attribute("track")
    }

    /// `machineid`.
    pub fn machine_id(&self) -> &str {
        self.attribute("machineid")
    }

    /// Asks nothing and tells nothing.
    pub fn is_bare(&self) -> bool {
        self.events.is_empty() && self.ping.is_none() && self.update_check.is_none()
    }
}

/// What a request's XML holds; why it is malformed otherwise.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) attributes: Attributes,
    pub(super) os: Option<Attributes>,
    pub(super) apps: Vec<AppRequest>,
}

pub(super) fn parse(body: &[u8]) -> Result<Parsed, String> {
    if body.len() > MAX_REQUEST {
        return Err(format!("{} bytes are too many", body.len()));
    }
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    check_characters(text)?;
    let mut reader = Reader::from_str(text);
    // An empty element then looks like an open and a closed one.
    reader.config_mut().expand_empty_elements = true;
    let mut parsed = Parsed::default();
    let mut path: Vec<String> = vec![];
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(element) => {
                path.push(element.local_name().as_ref().to_owned());
                let place: Vec<&str> = path.iter().map(String::as_str).collect();
                parsed.take(&place, attributes(&element)?)?;
            }
            // The server stops at the end of the root element.
            Event::End(_) if path.len() == 1 => return Ok(parsed),
            Event::End(_) => drop(path.pop()),
            Event::GeneralRef(entity) => check_entity(&entity)?,
            Event::Eof => return Err("unexpected end".to_owned()),
            _ => {}
        }
    }
}

impl Parsed {
    fn take(&mut self, place: &[&str], attributes: Attributes) -> Result<(), String> {
        match place {
            ["request"] => self.attributes = attributes,
            [root] => return Err(format!("expected <request>, not <{root}>")),
            ["request", "os"] => self.os = Some(attributes),
            ["request", "app"] => {
                self.apps.push(AppRequest { attributes, ..AppRequest::default() });
            }
            ["request", "app", child] => {
                let app = self.apps.last_mut().ok_or("no <app> is open")?;
                match *child {
                    "event" => app.events.push(event(attributes)?),
                    "ping" => app.ping = Some(attributes),
                    "updatecheck" => app.update_check = Some(attributes),
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn event(attributes: Attributes) -> Result<EventRequest, String> {
    let number = |name: &str| match attributes.get(name) {
        None => Ok(0),
        Some(text) => text.trim().parse().map_err(|_| format!("{name}=\"{text}\" is no number")),
    };
    Ok(EventRequest {
        event_type: number("eventtype")?,
        event_result: number("eventresult")?,
        previous_version: attributes.get("previousversion").cloned(),
        attributes,
    })
}

fn attributes(element: &BytesStart<'_>) -> Result<Attributes, String> {
    let mut attributes = Attributes::new();
    for attribute in element.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        if attribute.value.contains('<') {
            return Err("unescaped < inside quoted string".to_owned());
        }
        let value = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0);
        let value = value.map_err(|error| error.to_string())?.into_owned();
        check_characters(&value)?;
        attributes.insert(attribute.key.as_ref().to_owned(), value);
    }
    Ok(attributes)
}

fn check_entity(entity: &quick_xml::events::BytesRef<'_>) -> Result<(), String> {
    let name = entity.xml10_content();
    let known = matches!(name.as_ref(), "lt" | "gt" | "amp" | "apos" | "quot");
    let character = entity.resolve_char_ref().map_err(|error| error.to_string())?;
    match known || character.is_some() {
        true => Ok(()),
        false => Err(format!("invalid character entity &{name};")),
    }
}

fn check_characters(text: &str) -> Result<(), String> {
    let illegal = |c: &char| !matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    match text.chars().find(illegal) {
        Some(c) => Err(format!("illegal character code {:#06x}", u32::from(c))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_all_that_a_request_can_hold() {
        let xml = r#"<?xml version="1.0" encoding="UTF-8"?>
<request protocol="3.0" version="agent-1" sessionid="s" ismachine="1">
  <os platform="linux" version="1.2.3" arch="amd64"></os>
  <app appid="a&amp;b" version="1.2.3" track="t" machineid="m">
    <event eventtype="3" eventresult="2" previousversion="1.0.0" errorcode="7"/>
    <ping active="1"/><updatecheck/><unknown><event/></unknown>
  </app>
</request> trailing"#;
        let parsed = parse(xml.as_bytes()).unwrap();
        let app = &parsed.apps[0];
        assert_eq!(parsed.attributes["sessionid"], "s");
        assert_eq!(parsed.os.unwrap()["arch"], "amd64");
        assert_eq!((app.app_id(), app.track(), app.machine_id()), ("a&b", "t", "m"));
        assert_eq!(app.events.len(), 1);
        assert_eq!(app.events[0].attributes["errorcode"], "7");
        assert!(app.ping.is_some() && app.update_check.is_some() && !app.is_bare());
    }

    #[test]
    fn refuses_what_the_server_refuses() {
        let event =
            |kind: &str| format!("<request><app><event eventtype=\"{kind}\"/></app></request>");
        let cases = [
            String::new(),
            "not xml".to_owned(),
            "<other/>".to_owned(),
            "<request><app></request>".to_owned(),
            "<request>".to_owned(),
            "<request a=\"&nbsp;\"/>".to_owned(),
            "<request a=\"&\"/>".to_owned(),
            "<request a=\"<\"/>".to_owned(),
            "<request a=\"\u{1}\"/>".to_owned(),
            event("three"),
            format!("<request>{}</request>", " ".repeat(MAX_REQUEST)),
        ];
        for case in cases {
            assert!(parse(case.as_bytes()).is_err(), "{:.60}", case);
        }
        assert!(parse(b"<request a=\"\xff\"/>").is_err());
        assert!(parse(event("3").as_bytes()).is_ok());
    }
}
