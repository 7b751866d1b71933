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

fn label(value: &str) -> String {
    format!(r#"<label name="cosi.metadata.sha384" value="{value}"/>"#)
}

#[test]
fn labels_that_differ_or_do_not_decode_are_refused() {
    let source = HashSource::Labels;
    let (two, missing) = (OfferError::TwoHashes(source), OfferError::NoHash(source));
    let length = OfferError::BadHash(source, "48 bytes long");
    let alphabet = OfferError::BadHash(source, "hexadecimal");
    let (upper, lower, blank) = (HEX.to_uppercase(), HEX.to_lowercase(), format!(" {HEX}\n"));
    let base64 = BASE64.encode([0xab; 48]);
    let (spaced, prefixed) = (format!("{} {}", &HEX[..48], &HEX[48..]), format!("0x{}", &HEX[2..]));
    for (values, expected) in [
        (&[][..], Err(&missing)),
        (&[HEX], Ok(())),
        (&[HEX, HEX], Ok(())),
        (&[&upper, &lower], Ok(())),
        (&[&blank, &lower], Ok(())),
        (&[HEX, OTHER], Err(&two)),
        (&[HEX, HEX, OTHER], Err(&two)),
        (&[&HEX[2..]], Err(&length)),
        (&[&HEX[1..]], Err(&length)),
        (&[&format!("{HEX}00")], Err(&length)),
        (&[""], Err(&length)),
        (&[HEX, ""], Err(&length)),
        (&[&HEX.replace('0', "g")], Err(&alphabet)),
        (&[&base64], Err(&alphabet)),
        (&[&spaced], Err(&alphabet)),
        (&[&prefixed], Err(&alphabet)),
        (&[HEX, "é"], Err(&alphabet)),
    ] {
        let all: String = values.iter().map(|value| label(value)).collect();
        let found = labelled(&format!("<labels>{all}</labels>"));
        assert_eq!(found.as_ref().map(|_| ()), expected, "{values:?}");
    }
}

#[test]
fn labels_of_manifest_and_package_count_together() {
    let both = |manifest: &str, package: &str| {
        let update = format!(
            r#"<urls><url codebase="https://h/p"/></urls><manifest version="2">
               <labels>{}</labels><packages><package name="i"><labels>{}</labels></package></packages></manifest>"#,
            label(manifest),
            label(package)
        );
        read(&update, HashSource::Labels)
    };
    assert!(both(HEX, HEX).is_ok());
    assert!(both(HEX, &HEX.to_lowercase()).is_ok());
    assert_eq!(both(HEX, OTHER), Err(OfferError::TwoHashes(HashSource::Labels)));
}

#[test]
fn the_hash_attribute_is_base64_of_48_bytes() {
    let source = HashSource::Hash;
    let (missing, base64) = (OfferError::NoHash(source), OfferError::BadHash(source, "base64"));
    let length = OfferError::BadHash(source, "48 bytes long");
    let good = BASE64.encode([0xfb; 48]);
    let url_safe = good.replace('+', "-").replace('/', "_");
    assert_ne!(good, url_safe);
    for (hash, expected) in [
        (good.as_str(), Ok("fb".repeat(48))),
        (&format!("\n {good} "), Ok("fb".repeat(48))),
        ("", Err(missing.clone())),
        (" ", Err(missing)),
        ("!", Err(base64.clone())),
        (&url_safe, Err(base64.clone())),
        (&good[1..], Err(base64.clone())),
        (&format!("{good}="), Err(base64.clone())),
        (&format!("{} {}", &good[..32], &good[32..]), Err(base64)),
        (HEX, Err(length.clone())),
        (&BASE64.encode([0; 20]), Err(length.clone())),
        (&BASE64.encode([0; 32]), Err(length.clone())),
        (&BASE64.encode([0; 47]), Err(length.clone())),
        (&BASE64.encode([0; 49]), Err(length)),
    ] {
        assert_eq!(hashed(hash).map(|offer| offer.sha384), expected, "{hash}");
    }
    let none = r#"<urls><url codebase="https://h/p"/></urls><manifest version="2">
        <packages><package name="i"/></packages></manifest>"#;
    assert_eq!(read(none, source), Err(OfferError::NoHash(source)));
}

#[test]
fn there_is_no_fallback_between_the_sources() {
    let update = |hash: &str, labels: &str| {
        format!(
            r#"<urls><url codebase="https://h/p"/></urls><manifest version="2">{labels}<packages>
               <package name="i" hash="{hash}"/></packages></manifest>"#
        )
    };
    let (good_hash, good_label) = (BASE64.encode([1; 48]), label(HEX));
    let good_labels = format!("<labels>{good_label}</labels>");
    let (by_label, by_hash) = (HashSource::Labels, HashSource::Hash);
    for (source, hash, labels, expected) in [
        (by_label, &*good_hash, "", OfferError::NoHash(by_label)),
        (
            by_label,
            &good_hash,
            "<labels><label name='cosi.metadata.sha384' value='x'/></labels>",
            OfferError::BadHash(by_label, "hexadecimal"),
        ),
        (by_hash, "", &good_labels, OfferError::NoHash(by_hash)),
        (by_hash, "AAAA", &good_labels, OfferError::BadHash(by_hash, "48 bytes long")),
    ] {
        assert_eq!(read(&update(hash, labels), source), Err(expected), "{source}");
    }
    // With both there, each source has its own word.
    let both = update(&good_hash, &good_labels);
    let sha384 = |source| read(&both, source).expect("an offer").sha384;
    assert_eq!((sha384(by_label), sha384(by_hash)), (HEX.to_lowercase(), "01".repeat(48)));
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
        (Some("https://h/p?sig=x"), "i.cosi", "https://h/p/i.cosi"),
        (Some("https://h/p/?sig=x#frag"), "i.cosi?v=1", "https://h/p/i.cosi?v=1"),
        (Some("https://h/p#frag"), "i.cosi", "https://h/p/i.cosi"),
        (Some("https://h/a/b"), "../i.cosi", "https://h/a/i.cosi"),
        (Some("https://h/a"), "../../../i.cosi", "https://h/i.cosi"),
        (Some("https://h/a"), "/i.cosi", "https://h/i.cosi"),
        (Some("https://h/a"), "//other/i.cosi", "https://other/i.cosi"),
        (Some("oci://r/a"), "//other/i", "oci://other/i"),
        (Some("https://u:p@h/a"), "i.cosi", "https://u:p@h/a/i.cosi"),
        (Some("https://[2001:db8::1]:8443/a"), "i.cosi", "https://[2001:db8::1]:8443/a/i.cosi"),
        (Some("https://h/p"), "a b.cosi", "https://h/p/a%20b.cosi"),
        (Some("https://h/p"), "HTTPS://H/i", "https://h/i"),
        (Some(""), "https://h/i", "https://h/i"),
    ] {
        let url = address(codebase, name).map(String::from);
        assert_eq!(url.as_deref(), Ok(joined), "{codebase:?} {name}");
    }
}

#[test]
fn only_https_and_oci_with_a_host_are_accepted() {
    for (codebase, name, said) in [
        (Some("http://h/p"), "i?secret", "http://h is"),
        (Some("http://h/p"), "//h2/secret", "http://h2 is"),
        (Some("https://h/p"), "file:///etc/secret", "file: is"),
        (Some("file:///srv/secret"), "i", "file: is"),
        (Some("https://h/p"), "http://u:secret@h/i", "http://h is"),
        (Some("http://u:secret@h:81/p"), "i", "http://h:81 is"),
        (Some("https://h/p"), "ftp://u:secret@h/i", "ftp://h is"),
        (Some("oci:///r"), "secret", "oci: is"),
        (Some("oci:r"), "secret", "address"),
        (Some("https://h/p"), "data:text/plain,secret", "data: is"),
        (Some("https://h/p"), "javascript:secret", "javascript: is"),
        (Some("data:secret"), "i", "address"),
        (None, "secret", "address"),
        (None, "//h/secret", "address"),
        (None, "/etc/secret", "address"),
        (Some("secret"), "i", "address"),
        (Some("//h/secret"), "i", "address"),
        (Some("https://"), "secret", "address"),
        (Some("https://secret:port/"), "i", "address"),
        (Some("https://h/p"), "https://u:secret@/i", "address"),
    ] {
        let error = address(codebase, name).expect_err(name);
        assert!(error.to_string().contains(said), "{codebase:?} {name}: {error}");
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
