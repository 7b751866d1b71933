use std::time::Duration;

use proptest::prelude::*;

use super::super::event::PreviousVersion;
use super::super::identity::{Arch, MachineId, Server};
use super::super::offer::HashSource;
use super::super::xml::{self, Element};
use super::*;

fn settings(updater: &str) -> Settings {
    Settings {
        machine_id: MachineId::derive(&[7; 16]),
        arch: Arch::Aarch64,
        updater: updater.into(),
        hash_source: HashSource::Labels,
        deadline: Duration::from_secs(1),
        cookies: None,
    }
}

fn app(app_id: &str, track: &str) -> App {
    let server = Server::parse("https://h/").expect("https");
    App { server, app_id: app_id.into(), track: track.into() }
}

fn rendered(content: Content<'_>) -> String {
    let (settings, app) = (settings("agent-1"), app("id", "stable"));
    let request = Request { settings: &settings, app: &app, version: "1.2.3", content };
    String::from_utf8(request.render().expect("a request")).expect("UTF-8")
}

fn complete(version: &str) -> Event {
    let previous_version = PreviousVersion::try_from(version.to_owned()).expect("a version");
    Event::Complete { previous_version }
}

fn parsed(xml: &str) -> Element {
    xml::read(xml.as_bytes()).expect("well-formed")
}

fn app_of(root: &Element) -> &Element {
    root.child("app").expect("an app")
}

#[test]
fn a_request_says_who_asks_for_what() {
    let root = parsed(&rendered(Content::Check));
    assert!(root.is("request"));
    assert_eq!(root.attribute("protocol"), Some("3.0"));
    assert_eq!(root.attribute("version"), Some("agent-1"));
    assert_eq!(root.attribute("ismachine"), Some("1"));
    assert!(root.attribute("sessionid").is_some_and(|id| Uuid::parse_str(id).is_ok()));
    assert_eq!(root.attribute("installsource"), None);
    let os = root.child("os").expect("an os");
    assert_eq!(os.attribute("platform"), Some("linux"));
    assert_eq!(os.attribute("version"), Some("1.2.3"));
    assert_eq!(os.attribute("arch"), Some("aarch64"));
    let app = app_of(&root);
    assert_eq!(app.attribute("appid"), Some("id"));
    assert_eq!(app.attribute("version"), Some("1.2.3"));
    assert_eq!(app.attribute("track"), Some("stable"));
    assert_eq!(app.attribute("machineid"), Some(MachineId::derive(&[7; 16]).as_str()));
}

#[test]
fn each_content_holds_its_elements_and_no_other() {
    let complete = complete("1.0.0");
    for (content, event, ping, check) in [
        (Content::Probe, None, 0, 0),
        (Content::Check, None, 0, 1),
        (Content::Report(&Event::DownloadStarted), Some(("13", "1", None)), 0, 0),
        (Content::Report(&Event::DownloadFinished), Some(("14", "1", None)), 0, 0),
        (Content::Report(&Event::Installed), Some(("800", "1", None)), 0, 0),
        (Content::Report(&Event::Failed), Some(("3", "0", None)), 0, 0),
        (Content::Report(&complete), Some(("3", "2", Some("1.0.0"))), 1, 1),
    ] {
        let root = parsed(&rendered(content));
        let app = app_of(&root);
        assert_eq!(app.attribute("track"), Some("stable"), "{content:?}");
        assert_eq!(app.attribute("version"), Some("1.2.3"), "{content:?}");
        assert!(app.attribute("machineid").is_some_and(|id| Uuid::parse_str(id).is_ok()));
        assert_eq!(root.attribute("installsource"), None, "{content:?}");
        let found = app.child("event").map(|event| {
            let attribute = |name| event.attribute(name);
            (
                attribute("eventtype").expect("a type"),
                attribute("eventresult").expect("a result"),
                attribute("previousversion"),
            )
        });
        assert_eq!(found, event, "{content:?}");
        assert_eq!(app.children("event").count(), usize::from(event.is_some()));
        assert_eq!(app.children("ping").count(), ping, "{content:?}");
        assert_eq!(app.children("updatecheck").count(), check, "{content:?}");
        assert!(app.child("ping").is_none_or(|ping| ping.attribute("active") == Some("1")));
    }
}

#[test]
fn a_completion_without_a_previous_version_cannot_be_made() {
    for version in ["", " ", "\n"] {
        assert!(PreviousVersion::try_from(version.to_owned()).is_err());
    }
}

#[test]
fn sessions_differ() {
    assert_ne!(rendered(Content::Probe), rendered(Content::Probe));
}

#[test]
fn a_request_beyond_64_kib_is_not_made() {
    let (settings, app) = (settings("agent"), app("id", &"<".repeat(SIZE_LIMIT / 4)));
    let request = Request { settings: &settings, app: &app, version: "1", content: Content::Probe };
    assert!(matches!(request.render(), Err(Error::RequestTooLarge { .. })));
}

/// One value of each kind, to be replaced by another.
fn rendered_with(at: usize, value: &str) -> Result<Vec<u8>, Error> {
    let mut values = ["agent", "1.0.0", "id", "stable", "0.9.0"];
    values[at] = value;
    let [updater, version, app_id, track, previous] = values;
    let (settings, app) = (settings(updater), app(app_id, track));
    let event = complete(previous);
    let content = Content::Report(&event);
    Request { settings: &settings, app: &app, version, content }.render()
}

#[test]
fn a_character_that_xml_cannot_carry_is_refused_and_its_place_named() {
    let places = [
        "the updater's name",
        "the running version",
        "the app id",
        "the track",
        "the previous version",
    ];
    for (at, place) in places.into_iter().enumerate() {
        for c in ['\0', '\u{1}', '\u{b}', '\u{1b}', '\u{1f}', '\u{fffe}', '\u{ffff}'] {
            let error = rendered_with(at, &format!("SECRET{c}")).expect_err(place);
            assert!(matches!(&error, Error::NotXml { what, .. } if *what == place), "{error:?}");
            let text = format!("{error} {error:?}");
            assert!(text.contains(place) && !text.contains("SECRET"), "{text}");
        }
        for c in ['\t', '\n', '\r', ' ', '\u{7f}', '\u{85}', '\u{fffd}', '\u{10ffff}'] {
            assert!(rendered_with(at, &format!("v{c}")).is_ok(), "{place}: {c:?}");
        }
    }
}

#[test]
fn the_updater_is_this_agent() {
    let environment: [(std::ffi::OsString, std::ffi::OsString); 0] = [];
    let config = crate::config::Config::load(environment).expect("the defaults").config;
    let id = "0123456789abcdef0123456789abcdef";
    let settings = Settings::of(&config, id, Duration::from_secs(1)).expect("settings");
    assert_eq!(settings.updater, format!("trident-acl-agent-{}", crate::contract::AGENT_VERSION));
    assert!(settings.cookies.is_none(), "cookies are off unless asked for");
}

/// What a parser that is not ours finds in an attribute.
fn found<'a>(document: &'a roxmltree::Document<'_>, element: &str, attribute: &str) -> &'a str {
    let element = document.descendants().find(|node| node.has_tag_name(element));
    element.and_then(|element| element.attribute(attribute)).expect("an attribute")
}

proptest! {
    #[test]
    fn any_value_comes_back_as_it_was_or_is_refused(
        [updater, app_id, track, version, previous] in proptest::array::uniform5(any::<String>()),
    ) {
        let (settings, app) = (settings(&updater), app(&app_id, &track));
        let previous = format!("v{previous}");
        let event = complete(&previous);
        let content = Content::Report(&event);
        let request = Request { settings: &settings, app: &app, version: &version, content };
        let all = [&updater, &app_id, &track, &version, &previous];
        match request.render() {
            Err(error) => {
                prop_assert!(matches!(error, Error::NotXml { .. }), "{:?}", error);
                prop_assert!(all.iter().any(|value| !value.chars().all(is_legal)));
            }
            Ok(xml) => {
                let xml = std::str::from_utf8(&xml).expect("UTF-8");
                let document = roxmltree::Document::parse(xml).expect("well-formed");
                prop_assert_eq!(found(&document, "request", "version"), &updater);
                prop_assert_eq!(found(&document, "os", "version"), &version);
                prop_assert_eq!(found(&document, "app", "version"), &version);
                prop_assert_eq!(found(&document, "app", "appid"), &app_id);
                prop_assert_eq!(found(&document, "app", "track"), &track);
                prop_assert_eq!(found(&document, "event", "previousversion"), &previous);
            }
        }
    }

    #[test]
    fn markup_in_a_value_comes_back_as_it_was(value in "[<>&'\"\t\r\n =/!\\[\\]?;#xa\u{e9}\u{1f600}-]*") {
        let xml = rendered_with(3, &value).expect("a request");
        let xml = std::str::from_utf8(&xml).expect("UTF-8");
        let document = roxmltree::Document::parse(xml).expect("well-formed");
        prop_assert_eq!(found(&document, "app", "track"), &value);
        prop_assert_eq!(document.descendants().filter(|node| node.is_element()).count(), 6);
    }
}
