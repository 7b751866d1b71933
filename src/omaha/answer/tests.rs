use super::*;
use crate::omaha::xml::XmlError;

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn ours() -> App {
    let server = Server::parse("https://h/").expect("https");
    App { server, app_id: "OURS".into(), track: "t".into() }
}

fn read(body: &[u8]) -> Result<CheckAnswer, Error> {
    CheckAnswer::read(&ours(), body, HashSource::Labels)
}

fn answer(app: &str) -> Result<CheckAnswer, Error> {
    read(format!(r#"<response><app appid="other" status="bad"/>{app}</response>"#).as_bytes())
}

/// What an update check of our app is answered with this app status.
fn with_status(attributes: &str, check: &str) -> Result<CheckAnswer, Error> {
    answer(&format!(r#"<app appid="ours" {attributes}>{check}</app>"#))
}

const URLS: &str = r#"<urls><url codebase="https://h/p"/></urls>"#;
const PACKAGES: &str = r#"<packages><package name="i.cosi"/><package name="extra"/></packages>"#;

fn labels() -> String {
    format!(r#"<labels><label name="cosi.metadata.sha384" value="{HEX}"/></labels>"#)
}

fn offer() -> String {
    let manifest = format!(r#"<manifest version="2.0.0">{PACKAGES}{}</manifest>"#, labels());
    format!(r#"<updatecheck status="ok">{URLS}{manifest}</updatecheck>"#)
}

#[test]
fn every_app_status_has_its_outcome() {
    use CheckAnswer::{InProgress, Later, Refused};
    let later = |status: &str| Later(status.to_owned());
    let refused = |status: &str| Refused(status.to_owned());
    for (status, expected) in [
        ("error-updateInProgressOnInstance", InProgress),
        ("error-maxUpdatesPerPeriodLimitReached", later("error-maxUpdatesPerPeriodLimitReached")),
        ("error-maxConcurrentUpdatesLimitReached", later("error-maxConcurrentUpdatesLimitReached")),
        ("error-maxTimedOutUpdatesLimitReached", later("error-maxTimedOutUpdatesLimitReached")),
        ("error-updatesDisabled", later("error-updatesDisabled")),
        ("error-unknownApplicationOrGroup", refused("error-unknownApplicationOrGroup")),
        ("error-noPackageFound", refused("error-noPackageFound")),
        ("error-instanceRegistrationFailed", refused("error-instanceRegistrationFailed")),
        ("error-couldNotCheckUpdatesStats", refused("error-couldNotCheckUpdatesStats")),
        (
            "error-failedToRetrieveUpdatePackageInfo",
            refused("error-failedToRetrieveUpdatePackageInfo"),
        ),
        ("error-of-next-year", refused("error-of-next-year")),
        ("", refused("")),
        ("OK", refused("OK")),
        ("ok ", refused("ok ")),
        ("noupdate", refused("noupdate")),
        ("a&lt;b&#10;c", refused("a<bc")),
    ] {
        // The server answers a refused check with `error-internal`; an offer in it would count as little.
        for check in [r#"<updatecheck status="error-internal"/>"#, "", &offer()] {
            let found = with_status(&format!(r#"status="{status}""#), check);
            assert_eq!(found.expect("an answer"), expected, "{status:?} {check:.40}");
        }
    }
    let none = with_status("", &offer()).expect("an answer");
    assert_eq!(none, refused("(no status)"));
    let long = with_status(&format!(r#"status="{}""#, "x".repeat(9999)), "").expect("an answer");
    assert_eq!(long, refused(&"x".repeat(128)), "it goes into messages");
}

#[test]
fn every_update_check_status_has_its_outcome() {
    let refused = |status: &str| CheckAnswer::Refused(format!("update check: {status}"));
    for (attributes, expected) in [
        (r#"status="noupdate""#, CheckAnswer::NoUpdate),
        (r#"status="error-internal""#, refused("error-internal")),
        (r#"status="error-osnotsupported""#, refused("error-osnotsupported")),
        (r#"status="NoUpdate""#, refused("NoUpdate")),
        (r#"status="""#, refused("")),
        ("", refused("(no status)")),
    ] {
        let check = format!("<updatecheck {attributes}/>");
        let found = with_status(r#"status="ok""#, &check).expect("an answer");
        assert_eq!(found, expected, "{attributes}");
    }
    let none = with_status(r#"status="ok""#, r#"<ping status="ok"/><event status="ok"/>"#);
    assert!(matches!(none, Err(Error::UpdateCheckMissing { .. })), "{none:?}");
}

#[test]
fn our_app_is_found_by_its_id_wherever_it_stands() {
    let app = |id: &str, check: &str| format!(r#"<app appid="{id}" status="ok">{check}</app>"#);
    let (mine, other) =
        (app("ours", r#"<updatecheck status="noupdate"/>"#), app("theirs", &offer()));
    for (apps, found) in [
        (mine.clone(), true),
        (format!("{other}{mine}"), true),
        (format!("{mine}{other}"), true),
        (format!("{other}{other}{mine}{other}"), true),
        (format!("{mine}{}", app("OURS", &offer())), true),
        (other.clone(), false),
        (app("", &offer()), false),
        (app("ours2", &offer()), false),
        (format!(r#"<app status="ok">{}</app>"#, offer()), false),
        (format!("<nested>{mine}</nested>"), false),
        (String::new(), false),
    ] {
        let answer = read(format!("<response>{apps}</response>").as_bytes());
        match answer {
            Ok(answer) => assert!(found && answer == CheckAnswer::NoUpdate, "{apps}"),
            Err(error) => {
                assert!(!found && matches!(error, Error::AppMissing { .. }), "{apps}: {error:?}");
            }
        }
    }
}

fn manifest(content: &str) -> String {
    format!(r#"<manifest version="2.0.0">{content}</manifest>"#)
}

/// What stands in an update check, and says the same each time.
fn shapes() -> Vec<(&'static str, String)> {
    let labels = labels();
    let (head, tail) = HEX.split_at(50);
    let label = |text: &str| {
        format!(r#"<labels><label key="cosi.metadata.sha384">{text}</label></labels>"#)
    };
    let cdata = label(&format!("<![CDATA[{head}]]>{tail}"));
    let commented = label(&format!("{head}<!-- a > b --><?pi?>{tail}"));
    let two_urls = r#"<urls><url codebase="https://h/p"/><url codebase="https://other/"/></urls>"#;
    let spelled = r#"<urls><url codebase="&#x68;ttps&#58;//h/p"/></urls>"#;
    let absolute = r#"<packages><package name="https://h/p/i.cosi"/></packages>"#;
    let unknown = r#"<actions><package name="no"/></actions>"#;
    let next_year = r#"<new x="1"><urls/></new>"#;
    let usual = manifest(&format!("{PACKAGES}{labels}"));
    vec![
        ("the server's own order", format!("{URLS}{usual}")),
        ("labels first", format!("{URLS}{}", manifest(&format!("{labels}{PACKAGES}")))),
        ("manifest first", format!("{usual}{URLS}")),
        ("several urls, the first counts", format!("{two_urls}{usual}")),
        ("character references", format!("{spelled}{usual}")),
        ("CDATA", format!("{URLS}{}", manifest(&format!("{PACKAGES}{cdata}")))),
        (
            "comments, instructions",
            format!("{URLS}{}", manifest(&format!("{PACKAGES}{commented}"))),
        ),
        ("no urls, an absolute name", manifest(&format!("{absolute}{labels}"))),
        (
            "elements of next year",
            format!("{next_year}{URLS}{}", manifest(&format!("{unknown}{PACKAGES}{labels}<new/>"))),
        ),
    ]
}

#[test]
fn an_offer_is_understood_in_every_shape() {
    for (what, check) in shapes() {
        let check = format!(r#"<updatecheck status="ok">{check}</updatecheck>"#);
        let found = with_status(r#"status="ok" cohort="x""#, &check).expect(what);
        let CheckAnswer::Offer(offer) = found else { panic!("{what}: {found:?}") };
        let found = (offer.version.as_str(), offer.url.as_str(), offer.sha384.as_str());
        assert_eq!(found, ("2.0.0", "https://h/p/i.cosi", HEX), "{what}");
    }
}

fn whole() -> String {
    format!(
        r#"<response protocol="3.0"><app appid="ours" status="ok">{}</app></response>"#,
        offer()
    )
}

#[test]
fn a_document_that_says_the_same_in_other_ways_is_read() {
    let whole = whole();
    for (what, text) in [
        ("a byte order mark", format!("\u{feff}{whole}")),
        ("a prologue", format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n{whole}\n")),
        (
            "an encoding that it is not in",
            format!("<?xml version=\"1.0\" encoding=\"utf-16\"?>{whole}"),
        ),
        (
            "a stylesheet, a comment",
            format!("<?xml-stylesheet href='x'?><!-- hello -->{whole}<!-- bye -->"),
        ),
        (
            "a default namespace",
            whole.replacen("<response", "<response xmlns='urn:x' xmlns:o='urn:y'", 1),
        ),
        ("single quotes", whole.replace('"', "'")),
    ] {
        let answer = read(text.as_bytes()).expect(what);
        assert!(matches!(answer, CheckAnswer::Offer(_)), "{what}: {answer:?}");
    }
}

fn refused(cases: impl IntoIterator<Item = (&'static str, Vec<u8>, XmlError)>) {
    for (what, text, expected) in cases {
        let error = read(&text).expect_err(what);
        let Error::Malformed { source, .. } = &error else { panic!("{what}: {error:?}") };
        let same =
            matches!((source, &expected), (XmlError::Syntax { .. }, XmlError::Syntax { .. }));
        assert!(same || *source == expected, "{what}: {source:?}");
    }
}

const SYNTAX: XmlError = XmlError::Syntax { at: 0 };

#[test]
fn a_document_that_is_none_of_ours_is_refused() {
    let whole = whole();
    let utf16: Vec<u8> = whole.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let latin1 = whole.replace("i.cosi", "é").chars().map(|c| c as u8).collect();
    let prologue = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_vec();
    refused([
        ("nothing", vec![], XmlError::Empty),
        ("a prologue only", prologue, XmlError::Empty),
        ("blanks", b" \n\t".to_vec(), XmlError::Empty),
        ("JSON", b"{\"app\": 1}".to_vec(), XmlError::NotAResponse),
        ("a page", b"<html><body>Sign in</body></html>".to_vec(), XmlError::NotAResponse),
        ("a request", whole.replace("response", "request").into(), XmlError::NotAResponse),
        ("a prefix", whole.replace("response", "o:response").into(), XmlError::NotAResponse),
        ("UTF-16", [b"\xff\xfe".to_vec(), utf16.clone()].concat(), XmlError::NotUtf8),
        ("UTF-16 without its mark", utf16, SYNTAX),
        ("Latin-1", latin1, XmlError::NotUtf8),
        ("compressed", b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec(), XmlError::NotUtf8),
        ("cut in an element", whole[..whole.len() - 1].into(), SYNTAX),
        ("cut between elements", whole[..whole.len() - 11].into(), XmlError::Incomplete),
        ("two documents", whole.repeat(2).into(), XmlError::Trailing),
    ]);
}

#[test]
fn a_hostile_document_is_refused() {
    let whole = whole();
    let entity = |n: u8| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10));
    let laughs: String = (1..10).map(entity).collect();
    let laughs = format!("<!DOCTYPE r [<!ENTITY l0 \"lol\">{laughs}]><response>&l9;</response>");
    let external =
        "<!DOCTYPE r [<!ENTITY e SYSTEM \"file:///etc/passwd\">]><response>&e;</response>";
    let remote = "<!DOCTYPE r SYSTEM \"https://h/evil.dtd\"><response/>";
    let nested = format!("{}{}", "<response>".repeat(40), "</response>".repeat(40));
    let unquoted = whole.replace("\"https://h/p\"", "https://h/p");
    refused([
        ("a document type", format!("<!DOCTYPE response>{whole}").into(), XmlError::Entity),
        ("a billion laughs", laughs.into(), XmlError::Entity),
        ("an external entity", external.into(), XmlError::Entity),
        ("an external document type", remote.into(), XmlError::Entity),
        ("an entity of HTML", whole.replace("<urls>", "&nbsp;<urls>").into(), XmlError::Entity),
        ("an entity in a value", whole.replace("i.cosi", "&nbsp;").into(), SYNTAX),
        ("deep nesting", nested.into(), XmlError::TooComplex("depth")),
        ("an attribute twice", whole.replace("<package ", "<package name='x' ").into(), SYNTAX),
        ("an attribute without quotes", unquoted.into(), SYNTAX),
        ("an element that another closes", whole.replace("</labels>", "</label>").into(), SYNTAX),
    ]);
}

#[test]
fn a_huge_attribute_is_only_long() {
    let huge = "x".repeat(1_000_000);
    let found = read(whole().replace("<urls>", &format!("<urls x='{huge}'>")).as_bytes());
    assert!(matches!(found, Ok(CheckAnswer::Offer(_))), "it is passed over");
    let found = read(whole().replace("2.0.0", &huge).as_bytes()).expect("an answer");
    assert!(
        matches!(found, CheckAnswer::Offer(offer) if offer.version == huge),
        "and judged by others"
    );
}
