use proptest::prelude::*;

use super::super::reply::Reply;
use super::*;

const HEX: &str = "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const OTHER: &str = "f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn read(update: &str, hash: HashSource) -> Result<Offer, OfferError> {
    let body = format!(
        r#"<response><app appid="a" status="ok"><updatecheck status="ok">{update}</updatecheck></app></response>"#
    );
    let app = Reply::parse(body.as_bytes()).expect("a reply").into_app("a").expect("the app");
    Offer::read(&app.update.expect("an update check"), hash)
}

fn labelled(labels: &str) -> Result<Offer, OfferError> {
    let update = format!(
        r#"<urls><url codebase="https://h/p"/></urls><manifest version="2">{labels}<packages>
           <package name="i.cosi" hash="bad"/><package name="extra"/></packages></manifest>"#
    );
    read(&update, HashSource::Labels)
}

fn hashed(hash: &str) -> Result<Offer, OfferError> {
    let update = format!(
        r#"<urls><url codebase="https://h/p"/></urls><manifest version="2"><packages>
           <package name="i.cosi" hash="{hash}"/></packages></manifest>"#
    );
    read(&update, HashSource::Hash)
}

#[test]
fn a_label_is_read_in_every_spelling() {
    for label in [
        format!(r#"<label name="cosi.metadata.sha384" value="{HEX}"/>"#),
        format!(r#"<label key="cosi.metadata.sha384" value=" {HEX} "/>"#),
        format!(r#"<label name="cosi.metadata.sha384">{HEX}</label>"#),
        format!("<label key=\"cosi.metadata.sha384\">\n {HEX}\n</label>"),
        format!(r#"<label name="x" value="y"/><label name="cosi.metadata.sha384" value="{HEX}"/>"#),
    ] {
        let offer = labelled(&format!("<labels>{label}</labels>")).expect(&label);
        assert_eq!(offer.sha384, HEX.to_lowercase());
        assert_eq!((offer.version.as_str(), offer.name.as_str()), ("2", "i.cosi"));
    }
}

#[test]
fn a_label_may_stand_in_the_image_package_only() {
    let labels = format!(r#"<labels><label name="cosi.metadata.sha384" value="{HEX}"/></labels>"#);
    let update = |first: &str, second: &str| {
        format!(
            r#"<urls><url codebase="https://h/p"/></urls><manifest version="2"><packages>
               <package name="i">{first}</package><package name="x">{second}</package></packages></manifest>"#
        )
    };
    assert!(read(&update(&labels, ""), HashSource::Labels).is_ok());
    let missing = Err(OfferError::NoHash(HashSource::Labels));
    assert_eq!(read(&update("", &labels), HashSource::Labels), missing);
}

#[test]
fn labels_that_differ_or_do_not_decode_are_refused() {
    let label = |value: &str| format!(r#"<label name="cosi.metadata.sha384" value="{value}"/>"#);
    let labels = |all: &[&str]| {
        let all: String = all.iter().map(|value| label(value)).collect();
        labelled(&format!("<labels>{all}</labels>"))
    };
    let source = HashSource::Labels;
    assert_eq!(labels(&[]), Err(OfferError::NoHash(source)));
    assert_eq!(labels(&[HEX, OTHER]), Err(OfferError::TwoHashes(source)));
    assert!(labels(&[HEX, &HEX.to_lowercase()]).is_ok(), "one value in two spellings");
    let long = OfferError::BadHash(source, "48 bytes long");
    assert_eq!(labels(&[&HEX[2..]]), Err(long.clone()));
    assert_eq!(labels(&[""]), Err(long));
    let alphabet = OfferError::BadHash(source, "hexadecimal");
    assert_eq!(labels(&[&HEX.replace('0', "g")]), Err(alphabet.clone()));
    assert_eq!(labels(&[HEX, "é"]), Err(alphabet));
}

#[test]
fn the_hash_attribute_is_base64_of_48_bytes() {
    let offer = hashed(&BASE64.encode([0xab; 48])).expect("an offer");
    assert_eq!(offer.sha384, "ab".repeat(48));
    let source = HashSource::Hash;
    assert_eq!(hashed(""), Err(OfferError::NoHash(source)));
    assert_eq!(hashed("!"), Err(OfferError::BadHash(source, "base64")));
    assert_eq!(hashed(HEX), Err(OfferError::BadHash(source, "48 bytes long")));
    assert_eq!(hashed(&BASE64.encode([0; 20])), Err(OfferError::BadHash(source, "48 bytes long")));
}

#[test]
fn there_is_no_fallback_between_the_sources() {
    let both = |hash| {
        let update = format!(
            r#"<urls><url codebase="https://h/p"/></urls><manifest version="2"><packages>
               <package name="i" hash="{hash}"/></packages></manifest>"#
        );
        read(&update, HashSource::Labels)
    };
    let hash = BASE64.encode([1; 48]);
    assert_eq!(both(hash), Err(OfferError::NoHash(HashSource::Labels)));
}

#[test]
fn addresses_are_joined_as_references() {
    for (codebase, name, joined) in [
        (Some("https://h/p"), "i.cosi", "https://h/p/i.cosi"),
        (Some("https://h/p/"), "i.cosi", "https://h/p/i.cosi"),
        (Some("https://h"), "i.cosi", "https://h/i.cosi"),
        (Some("https://h/p"), "i.cosi?sig=a%2Fb", "https://h/p/i.cosi?sig=a%2Fb"),
        (Some("https://h/p"), "oci://r/i:tag", "oci://r/i:tag"),
        (Some("oci://r/repo"), "i:tag@sha256", "oci://r/repo/i:tag@sha256"),
        (Some("oci://r"), "repo/i", "oci://r/repo/i"),
        (Some("http://h/p"), "https://h/i", "https://h/i"),
        (None, "https://h/i", "https://h/i"),
        (Some(""), "https://h/i", "https://h/i"),
    ] {
        let url = address(codebase, name).map(String::from);
        assert_eq!(url.as_deref(), Ok(joined), "{codebase:?} {name}");
    }
}

#[test]
fn only_https_and_oci_with_a_host_are_accepted() {
    for (codebase, name) in [
        (Some("http://h/p"), "i?secret"),
        (Some("https://h/p"), "file:///etc/secret"),
        (Some("https://h/p"), "http://u:secret@h/i"),
        (Some("oci:///r"), "secret"),
        (Some("oci:r"), "secret"),
        (Some("https://h/p"), "data:secret"),
        (None, "secret"),
        (Some("secret"), "i"),
    ] {
        let error = address(codebase, name).expect_err(name);
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
}

#[test]
fn an_incomplete_offer_is_named() {
    for (update, error) in [
        ("", OfferError::NoVersion),
        (r#"<manifest version=" "/>"#, OfferError::NoVersion),
        (r#"<manifest version="2"/>"#, OfferError::NoPackage),
        (r#"<manifest version="2"><packages/></manifest>"#, OfferError::NoPackage),
        (
            r#"<manifest version="2"><packages><package/></packages></manifest>"#,
            OfferError::NoPackage,
        ),
    ] {
        assert_eq!(read(update, HashSource::Hash), Err(error));
    }
}

#[test]
fn an_offer_prints_its_origin_only() {
    let mut offer = hashed(&BASE64.encode([0; 48])).expect("an offer");
    offer.url = Url::parse("https://u:secret@h:1/secret?secret").expect("a URL");
    offer.name = "secret".into();
    let shown = format!("{offer:?}");
    assert!(shown.contains("https://h:1") && !shown.contains("secret"), "{shown}");
}

proptest! {
    #[test]
    fn any_address_is_https_or_oci_or_an_error(codebase: Option<String>, name: String) {
        if let Ok(url) = address(codebase.as_deref(), &name) {
            prop_assert!(matches!(url.scheme(), "https" | "oci") && url.has_host());
        }
    }
}
