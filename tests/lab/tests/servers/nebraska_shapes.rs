//! The shapes of answers, cookies, malformed requests and faults.

use std::time::Duration;

use bytes::Bytes;
use trident_lab::nebraska::{
    Cookies, ExtraPackage, Fault, LabelForm, LabelPlace, PackageSpec, Verb,
};

use super::Updates;

const APP: &str = "a1b2c3d4-0000-4000-8000-000000000001";
const PROLOGUE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

fn check() -> String {
    format!(
        r#"<request protocol="3.0"><app appid="{APP}" version="1.0.0" track="t" machineid="m"><updatecheck/></app></request>"#
    )
}

fn package() -> PackageSpec {
    PackageSpec::new("2.0.0", "https://images.example.com/?a=1&b=2", "image.cosi")
        .with_sha384("abc")
}

async fn answer_for(package: PackageSpec) -> String {
    let updates = Updates::new();
    updates.nebraska.add_package(APP, "t", package);
    updates.post(check()).await
}

#[tokio::test]
async fn the_plain_answer_is_that_of_the_real_encoder() {
    let answer = answer_for(package()).await;
    let wanted = format!(
        r#"{PROLOGUE}<response protocol="3.0" server="nebraska"><daystart elapsed_seconds="0"></daystart><app appid="{APP}" status="ok"><updatecheck status="ok"><urls><url codebase="https://images.example.com/?a=1&amp;b=2"></url></urls><manifest version="2.0.0"><packages><package name="image.cosi" hash="" size="1073741824" required="true"></package></packages><labels><label name="cosi.metadata.sha384" value="abc"></label></labels></manifest></updatecheck></app></response>"#
    );
    assert_eq!(answer, wanted);
}

#[tokio::test]
async fn labels_have_every_form_and_place() {
    let forms = [
        (LabelForm::NameValue, r#"<label name="cosi.metadata.sha384" value="abc"></label>"#),
        (LabelForm::KeyValue, r#"<label key="cosi.metadata.sha384" value="abc"></label>"#),
        (LabelForm::NameText, r#"<label name="cosi.metadata.sha384">abc</label>"#),
        (LabelForm::KeyText, r#"<label key="cosi.metadata.sha384">abc</label>"#),
    ];
    for (label_form, text) in forms {
        for (label_place, count, before) in [
            (LabelPlace::Manifest, 1, "</packages>"),
            (LabelPlace::Package, 1, "required=\"true\">"),
            (LabelPlace::Both, 2, "</packages>"),
        ] {
            let answer = answer_for(PackageSpec { label_form, label_place, ..package() }).await;
            assert_eq!(answer.matches(text).count(), count, "{answer}");
            assert!(answer.contains(&format!("{before}<labels>{text}</labels>")), "{answer}");
        }
    }
}

#[tokio::test]
async fn urls_packages_and_apps_vary() {
    let extra = ExtraPackage { name: "extra".to_owned(), hash: "h".to_owned(), size: 3 };
    let answer = answer_for(PackageSpec {
        codebase: None,
        name: "https://elsewhere.example.com/image.cosi".to_owned(),
        hash: "aGFzaA==".to_owned(),
        extra_packages: vec![extra],
        ..package()
    })
    .await;
    assert!(!answer.contains("<urls>"), "{answer}");
    assert!(answer.contains(r#"name="https://elsewhere.example.com/image.cosi" hash="aGFzaA==""#));
    assert!(answer.contains(r#"<package name="extra" hash="h" size="3" required="true">"#));
    let updates = Updates::new();
    updates.nebraska.add_package(APP, "t", package());
    updates.nebraska.set_foreign_app_first(true);
    let answer = updates.post(check()).await;
    assert!(answer.find("noupdate").unwrap() < answer.find(APP).unwrap(), "{answer}");
}

#[tokio::test]
async fn malformed_requests_get_the_prologue_alone() {
    let updates = Updates::new();
    updates.nebraska.add_package(APP, "t", package());
    let large = check().replace("<updatecheck/>", &format!("<updatecheck/>{}", " ".repeat(65536)));
    for body in ["", "{}", "<request>", "<response/>", large.as_str()] {
        assert_eq!(updates.post(body.to_owned()).await, PROLOGUE);
    }
    assert!(updates.nebraska.requests().is_empty());
    assert_eq!(updates.nebraska.http_requests().len(), 5);
}

#[tokio::test]
async fn only_a_post_to_the_update_path_counts() {
    let updates = Updates::new();
    let slash = updates.http.post(format!("{}/", updates.url)).body(check()).send().await;
    assert_eq!(slash.unwrap().status(), 200);
    assert_eq!(updates.http.get(&updates.url).send().await.unwrap().status(), 405);
    let elsewhere = updates.http.post(format!("{}x", updates.url)).send().await;
    assert_eq!(elsewhere.unwrap().status(), 404);
    assert_eq!(updates.nebraska.requests().len(), 1);
}

#[tokio::test]
async fn cookies_are_set_as_told_and_recorded() {
    let updates = Updates::new();
    let send = async |cookie: Option<&str>| {
        let request = updates.request(check());
        let request = cookie.into_iter().fold(request, |r, c| r.header("cookie", c));
        let answer = request.send().await.unwrap();
        answer.headers().get("set-cookie").map(|v| v.to_str().unwrap().to_owned())
    };
    assert_eq!(send(None).await, None);
    updates.nebraska.set_cookies(Cookies::WhenMissing);
    let first = send(None).await.unwrap();
    assert!(first.starts_with(&updates.nebraska.cookies_set()[0]));
    assert_eq!(send(Some("a=b")).await, None);
    updates.nebraska.set_cookies(Cookies::Always);
    assert_ne!(send(Some("a=b")).await.unwrap(), first);
    let cookies: Vec<_> = updates.nebraska.requests().into_iter().map(|r| r.cookie).collect();
    assert_eq!(cookies[2].as_deref(), Some("a=b"));
    assert_eq!(cookies[0], None);
}

#[tokio::test]
async fn answers_can_be_replaced() {
    let updates = Updates::new();
    updates.nebraska.add_package(APP, "t", package());
    updates.nebraska.set_raw_response(Some("<odd/>"));
    assert_eq!(updates.post(check()).await, "<odd/>");
    assert!(updates.nebraska.instance("m").is_some());
    updates.nebraska.set_raw_response(None);
    let location = "https://elsewhere.invalid/".to_owned();
    updates.nebraska.inject(Fault::Redirect { status: 308, location }.times(1));
    assert!(updates.request(check()).send().await.is_err());
    let headers = vec![("content-type".to_owned(), "text/html".to_owned())];
    let body = Bytes::from_static(b"<html>sign in</html>");
    updates.nebraska.inject(Fault::Reply { status: 200, headers, body }.times(1));
    assert_eq!(updates.post(check()).await, "<html>sign in</html>");
    updates.nebraska.inject(Fault::Status(503).on(Verb::Omaha));
    assert_eq!(updates.request(check()).send().await.unwrap().status(), 503);
    updates.nebraska.clear_faults();
    let requests = updates.nebraska.requests();
    let seen: Vec<_> = requests.iter().map(|r| (r.http_status, r.processed)).collect();
    assert_eq!(seen[0], (Some(200), true));
    assert_eq!(seen[1], (Some(308), false));
    assert_eq!(seen[3], (Some(503), false));
}

#[tokio::test]
async fn bodies_break_off_stall_and_swell() {
    let updates = Updates::new();
    updates.nebraska.inject(Fault::Truncate(20).times(1));
    updates.nebraska.inject(Fault::Stall(20).times(1));
    updates.nebraska.inject(Fault::Huge(3_000_000).times(1));
    let broken = updates.request(check()).send().await.unwrap().bytes().await;
    assert!(broken.is_err(), "{broken:?}");
    let mut stalled = updates.request(check()).send().await.unwrap();
    assert_eq!(stalled.chunk().await.unwrap().unwrap().len(), 20);
    let more = tokio::time::timeout(Duration::from_millis(200), stalled.chunk()).await;
    assert!(more.is_err(), "{more:?}");
    let huge = updates.post(check()).await;
    assert!(huge.len() > 3_000_000 && huge.ends_with("</response>"));
}

#[tokio::test]
async fn connections_are_refused_hang_and_fall_silent() {
    let updates = Updates::new();
    let short = Duration::from_millis(300);
    for fault in [Fault::Refuse, Fault::Hang, Fault::DropSilently] {
        updates.nebraska.inject(fault.clone());
        let error = updates.request(check()).timeout(short).send().await.unwrap_err();
        assert_eq!(error.is_timeout(), fault != Fault::Refuse, "{fault:?}: {error:?}");
        updates.nebraska.clear_faults();
        // A client's pool may still hold a connection that fell silent.
        updates.nebraska.reset_connections();
        assert_eq!(updates.request(check()).send().await.unwrap().status(), 200);
    }
}
