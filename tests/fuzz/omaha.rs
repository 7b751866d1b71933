//! Nebraska's answers: whatever comes is an answer with a usable offer, another answer, or an error.

use std::time::{Duration, Instant};

use trident_acl_agent::omaha::{App, CheckAnswer, HashSource, Offer, Server};

use crate::mutate;

/// Far more than the worst answer takes on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(10);

const OFFER: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<response protocol="3.0" server="nebraska"><daystart elapsed_seconds="0"></daystart><app appid="ours" status="ok"><ping status="ok"></ping><updatecheck status="ok"><urls><url codebase="https://u:SECRET@images.example/acl?sig=SECRET"></url></urls><manifest version="202606.29.0"><packages><package name="new.cosi?sig=SECRET" hash="q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6ur" size="1" required="true"></package><package name="extra" hash="" size="1" required="true"></package></packages><labels><label name="cosi.metadata.sha384" value="abababababababababababababababababababababababababababababababababababababababababababababababab"></label></labels></manifest></updatecheck></app></response>"#;

const SEEDS: [&str; 9] = [
    OFFER,
    r#"<response><app appid="theirs" status="error-x"/><app appid="OURS" status="ok"><updatecheck status="ok"><manifest version="2"><packages><package name="oci://registry.example/acl:2@sha256:ab" hash="q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6ur"><labels><label key="cosi.metadata.sha384">abababababababababababababababababababababababababababababababababababababababababababababababab</label></labels></package></packages></manifest></updatecheck></app></response>"#,
    r#"<response><app appid="ours" status="error-updateInProgressOnInstance"><updatecheck status="error-internal"/></app></response>"#,
    r#"<response><app appid="ours" status="ok"><updatecheck status="noupdate"/><event status="ok"/></app></response>"#,
    r#"<!DOCTYPE r [<!ENTITY e "x">]><response>&e;<![CDATA[ ]]><!-- --><?pi?></response>"#,
    // Refused, each by one thing: a little change to any of the guards lets one through.
    r#"<response><app appid="ours" status="ok"><updatecheck status="ok"><urls><url codebase="http://images.example/"/></urls><manifest version="2"><packages><package name="i" hash="q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6ur"/></packages></manifest></updatecheck></app></response>"#,
    r#"<response><app appid="ours" status="ok"><updatecheck status="ok"><urls><url codebase="oci:///images"/></urls><manifest version="2"><packages><package name="i" hash="q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6ur"/></packages></manifest></updatecheck></app></response>"#,
    r#"<response><app appid="ours" status="ok"><updatecheck status="ok"><urls><url codebase="https://h/"/></urls><manifest version=" "><packages><package name="i" hash="q6urq6urq6urq6urq6ur"/></packages></manifest></updatecheck></app></response>"#,
    "<html><body>Sign in</body></html>",
];

fn read(bytes: &[u8], hash: HashSource) -> Option<Offer> {
    let server = Server::parse("https://updates.example/v1/update").unwrap();
    let app = App { server, app_id: "ours".into(), track: "stable".into() };
    let begun = Instant::now();
    let answer = CheckAnswer::read(&app, bytes, hash);
    assert!(begun.elapsed() < AT_ONCE, "{:?} for {} bytes", begun.elapsed(), bytes.len());
    match answer {
        Ok(CheckAnswer::Offer(offer)) => Some(offer),
        Ok(CheckAnswer::Later(status) | CheckAnswer::Refused(status)) => {
            assert!(status.chars().count() <= 160 && !status.chars().any(char::is_control));
            None
        }
        Ok(CheckAnswer::NoUpdate | CheckAnswer::InProgress) => None,
        Err(error) => {
            assert!(!format!("{error} {error:?}").is_empty());
            None
        }
    }
}

fn check(bytes: &[u8]) {
    for hash in [HashSource::Labels, HashSource::Hash] {
        if let Some(offer) = read(bytes, hash) {
            check_offer(&offer);
        }
    }
}

/// What the rest of the agent relies on.
fn check_offer(offer: &Offer) {
    assert!(matches!(offer.url.scheme(), "https" | "oci"), "{offer:?}");
    assert!(offer.url.host_str().is_some_and(|host| !host.is_empty()), "{offer:?}");
    assert!(!offer.version.trim().is_empty() && !offer.name.is_empty(), "{offer:?}");
    let digits = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    assert!(offer.sha384.len() == 96 && offer.sha384.bytes().all(digits), "{offer:?}");
    let shown = format!("{offer:?}").replace(&format!("{:?}", offer.version), "");
    let secrets = [offer.url.password(), offer.url.query(), offer.url.fragment()];
    for secret in secrets.into_iter().flatten().filter(|secret| secret.contains("SECRET")) {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn an_answer_is_understood_or_refused() {
    let offers =
        SEEDS[..2].iter().filter(|seed| read(seed.as_bytes(), HashSource::Labels).is_some());
    assert_eq!(offers.count(), 2, "the seeds lead past the parser");
    mutate::each(&SEEDS, check);
}

/// What answers are made of, and what answers should not be made of.
const PIECES: [&str; 46] = [
    "<response>",
    "</response>",
    "<app appid=\"ours\" status=\"ok\">",
    "<app appid='OURS'>",
    "</app>",
    "<updatecheck status=\"ok\">",
    "<updatecheck status='noupdate'/>",
    "</updatecheck>",
    "<urls>",
    "<url codebase=\"https://h/p\"/>",
    "<url codebase=\"oci://r\"/>",
    "<url codebase=\"http://h\"/>",
    "<url codebase=''/>",
    "</urls>",
    "<manifest version=\"2\">",
    "<manifest version=' '>",
    "</manifest>",
    "<packages>",
    "<package name=\"i\">",
    "<package name=\"//h/i\">",
    "<package name=\"data:x\"/>",
    "<package name=\"../../i\" hash=\"q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6ur\"/>",
    "</package>",
    "</packages>",
    "<labels>",
    "</labels>",
    "<label name=\"cosi.metadata.sha384\" value=\"abababababababababababababababababababababababababababababababababababababababababababababababab\"/>",
    "<label key='cosi.metadata.sha384'>",
    "abababababababababababababababababababababababababababababababababababababababababababababababab",
    "</label>",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<?",
    "?>",
    "&amp;",
    "&#0;",
    "&#x10FFFF;",
    "&#99999999999;",
    "&e;",
    "<!DOCTYPE r [<!ENTITY e '&e;'>]>",
    "\u{feff}",
    "\0",
    " ",
    "<",
];

/// By the server's own grammar, with a few pieces of the above in wrong places.
#[test]
fn an_answer_of_wrong_pieces_is_understood_or_refused() {
    bolero::check!().with_iterations(4000).with_type::<(u16, Vec<(u8, bool)>)>().for_each(
        |(at, pieces)| {
            let piece = |(n, _): &(u8, bool)| PIECES[usize::from(*n) % PIECES.len()];
            let alone: String = pieces.iter().map(piece).collect();
            check(alone.as_bytes());
            let within: Vec<_> = OFFER.match_indices('<').map(|(at, _)| at).collect();
            let at = within[usize::from(*at) % within.len()];
            check(format!("{}{alone}{}", &OFFER[..at], &OFFER[at..]).as_bytes());
        },
    );
}

#[test]
fn the_worst_answers_are_read_at_once() {
    // Anything quadratic takes minutes at this length.
    let much = |piece: &str| piece.repeat((1 << 18) / piece.len());
    for piece in [
        "<",
        ">",
        "&",
        "&amp;",
        "&#1;",
        "<a>",
        "<a/>",
        "<a b=''/>",
        "<!--",
        "<!---->",
        "<![CDATA[",
        "]]>",
        "<?",
        "\"",
        "=",
        "a='' ",
        "\u{feff}",
        "\0",
        "\u{10ffff}",
        "x",
        " ",
    ] {
        let noise = much(piece);
        check(noise.as_bytes());
        check(format!("<response>{noise}").as_bytes());
        check(format!("<response {noise}/>").as_bytes());
        check(format!("<response a='{noise}'/>").as_bytes());
        check(format!("<response a='&lt;{noise}' {noise}>").as_bytes());
    }
    let attributes: String = (0..100_000).map(|n| format!(" a{n}=''")).collect();
    check(format!("<response{attributes}/>").as_bytes());
    check(OFFER.replace("new.cosi", &much("../")).as_bytes());
    check(OFFER.replace("new.cosi", &much("a/")).as_bytes());
}
