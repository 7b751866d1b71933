//! Every shape in which a server describes an image, down to what tridentd is told.

use serde_json::json;
use trident_acl_agent::contract::Operation;
use trident_lab::lab::{NEW, TRACK};
use trident_lab::nebraska::{ExtraPackage, LabelForm, LabelPlace, PackageSpec};
use trident_lab::trident::Method;

use crate::bench::{Bench, SHA384, package};

/// Stages what an application of its own offers; what tridentd was told.
async fn staged(bench: &Bench, app: &str, spec: PackageSpec) -> (String, String) {
    bench.nebraska.add_package(app, TRACK, spec);
    let request = bench.request(Operation::Stage).with("appId", json!(app));
    bench.carry_out_well(&request).await;
    let calls = bench.trident.calls_of(Method::UpdateStage);
    let told = &calls.last().expect("a call").request;
    let word = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    (word("url"), word("sha384"))
}

bench_test!(labels_are_found_in_each_place_and_form, async |bench| {
    for place in [LabelPlace::Manifest, LabelPlace::Package, LabelPlace::Both] {
        for form in
            [LabelForm::NameValue, LabelForm::KeyValue, LabelForm::NameText, LabelForm::KeyText]
        {
            let spec = PackageSpec {
                label_place: place,
                label_form: form,
                extra_labels: vec![("other".into(), "<&>".into())],
                sha384: Some(SHA384.to_uppercase()),
                ..package()
            };
            let (_url, sha384) = staged(&bench, &format!("{place:?}-{form:?}"), spec).await;
            assert_eq!(sha384, SHA384, "{place:?} {form:?}");
        }
    }
});

bench_test!(the_first_package_is_the_image_wherever_it_is, async |bench| {
    bench.nebraska.set_foreign_app_first(true);
    let extra = ExtraPackage { name: "extra".into(), hash: "AAAA".into(), size: 1 };
    for (app, codebase, name, url) in [
        ("a", Some("https://h/dir"), "i.cosi", "https://h/dir/i.cosi"),
        ("b", Some("https://h/dir/"), "i.cosi?a=1&b=%2F", "https://h/dir/i.cosi?a=1&b=%2F"),
        ("c", Some("https://h/dir?q#f"), "i.cosi", "https://h/dir/i.cosi"),
        ("d", Some("https://h/dir"), "https://other/i.cosi", "https://other/i.cosi"),
        ("e", Some("https://h/a/b"), "../i.cosi", "https://h/a/i.cosi"),
        ("f", None, "https://h/i.cosi", "https://h/i.cosi"),
        ("g", Some("oci://r/images"), "acl:1.2", "oci://r/images/acl:1.2"),
    ] {
        let spec = PackageSpec {
            codebase: codebase.map(str::to_owned),
            name: name.to_owned(),
            extra_packages: vec![extra.clone(), extra.clone()],
            ..package()
        };
        bench.trident.add_image(url, NEW);
        assert_eq!(staged(&bench, app, spec).await.0, url);
    }
});

bench_test!(the_hash_comes_from_where_the_settings_say, async |mut bench| {
    let other = "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd";
    let spec = || PackageSpec { version: NEW.into(), hash: other.into(), ..package() };
    assert_eq!(staged(&bench, "a", spec()).await.1, SHA384);
    bench.set("COSI_SHA384_SOURCE", "hash");
    assert_eq!(staged(&bench, "b", spec()).await.1, "71d71d".repeat(16));
});
