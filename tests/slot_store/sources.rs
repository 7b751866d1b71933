//! Where images come from: servers, registries, COSI files; and what of it travels.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::host::{Cosi, Host, confext, image, noise, sha384, sysext};
use crate::server::{Asked, Resource, Server};

fn wants(url: &str, raw: &[u8]) -> Value {
    json!({ "url": url, "sha384": sha384(raw), "scope": "slotted" })
}

fn sent(asked: &[Asked]) -> usize {
    asked.iter().map(|it| it.sent).sum()
}

#[test]
fn an_image_comes_from_an_https_server() -> Result<()> {
    let (host, server) = Host::with_server()?;
    server.put("/moved.raw", Resource::moved(&server.url("/new/moved.raw?sig=SECRET")));
    let moved = sysext("moved", &noise(300_000))?;
    server.put("/new/moved.raw", Resource::of(moved.clone()));
    let plain = sysext("plain", &noise(300_000))?;
    server.put("/plain.raw", Resource::of(plain.clone()));
    let ranges = sysext("ranges", b"x")?;
    server.put("/ranges.raw", Resource::with_ranges(ranges.clone()));
    for (path, raw) in [("/moved.raw", moved), ("/plain.raw", plain), ("/ranges.raw", ranges)] {
        let url = server.url(path).replace("https://", "https://user:SECRET@") + "?sig=SECRET";
        let os = json!({ "sysexts": [wants(&url, &raw)] });
        let said = host.staged(&os, &[], "staged 1 extensions for slot b, 0 of them reused")?;
        ensure!(!said.contains("SECRET"), "{path}: {said}");
        let line = format!("{}: {} bytes", server.url(path), raw.len());
        ensure!(said.lines().any(|it| it.ends_with(&line)), "{path}: {said}");
        let set = host.set()?;
        ensure!(set[0]["sha384"] == sha384(&raw) && set[0]["source"]["kind"] == "url", "{set}");
        ensure!(set[0]["source"]["location"] == server.url(path), "{set}");
        let asked = server.asked();
        ensure!(asked.iter().any(|it| it.head.contains("authorization: Basic")), "{asked:?}");
        ensure!(asked.iter().any(|it| it.path.ends_with("?sig=SECRET")), "{asked:?}");
        host.staged(&os, &[], "1 of them reused")?;
        ensure!(server.asked().is_empty(), "{path}");
    }
    Ok(())
}

#[test]
fn a_link_of_the_host_stays_in_the_host() -> Result<()> {
    let host = Host::new()?;
    let raw = sysext("tools", b"x")?;
    std::fs::create_dir(host.root().join("images"))?;
    std::fs::write(host.root().join("images/tools.raw"), &raw)?;
    std::os::unix::fs::symlink("/images", host.root().join("linked"))?;
    host.staged(&json!({ "sysexts": [wants("file:///linked/tools.raw", &raw)] }), &[], "staged 1")?;
    let raw = sysext("outside", b"x")?;
    host.file("outside.raw", &raw)?;
    std::os::unix::fs::symlink("../../outside.raw", host.root().join("images/outside.raw"))?;
    let os = json!({ "sysexts": [wants("file:///images/outside.raw", &raw)] });
    host.refuses(&os, &[], "No such file")
}

/// A registry with one artifact, which wants a token.
fn registry(server: &Server, name: &str, layers: &[(&[u8], Option<&str>)], ranges: bool) -> String {
    let realm = format!("Bearer realm=\"{}\",service=\"lab\"", server.url("/token"));
    let needs = Some(("Bearer lab-token".to_owned(), vec![("www-authenticate".to_owned(), realm)]));
    let guarded = |resource: Resource| Resource { needs: needs.clone(), ..resource };
    server.put("/v2/", guarded(Resource::of("{}")));
    server.put("/token", Resource::of(r#"{"token":"lab-token"}"#));
    let mut described = Vec::new();
    for (bytes, title) in layers {
        let digest = format!("sha256:{}", crate::host::sha256(bytes));
        let annotations = title.map(|it| json!({ "org.opencontainers.image.title": it }));
        described.push(json!({ "mediaType": "application/octet-stream", "digest": digest,
            "size": bytes.len(), "annotations": annotations.unwrap_or(json!({})) }));
        let resource = Resource { ranges, ..Resource::of(*bytes) };
        server.put(&format!("/v2/acl/{name}/blobs/{digest}"), guarded(resource));
    }
    let empty = json!({ "mediaType": "application/vnd.oci.empty.v1+json", "size": 2,
        "digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" });
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({ "schemaVersion": 2, "mediaType": kind, "config": empty,
        "layers": described });
    let manifest = Resource::of(manifest.to_string()).header("content-type", kind);
    server.put(&format!("/v2/acl/{name}/manifests/1"), guarded(manifest));
    format!("oci://localhost:{}/acl/{name}:1", server.port)
}

#[test]
fn an_image_comes_from_a_registry() -> Result<()> {
    let (host, server) = Host::with_server()?;
    let (tools, conf) = (sysext("tools", &noise(300_000))?, confext("conf", b"x")?);
    let one = registry(&server, "one", &[(&tools, Some("tools.raw"))], true);
    let two = registry(&server, "two", &[(&conf, None)], false);
    let os = json!({ "sysexts": [wants(&one, &tools)], "confexts": [wants(&two, &conf)] });
    host.staged(&os, &[], "staged 2 extensions")?;
    let set = host.set()?;
    let source = &set[0]["source"];
    ensure!(source["kind"] == "oci" && source["location"] == one, "{set}");
    ensure!(source["hash"] == format!("sha256:{}", crate::host::sha256(&tools)), "{set}");
    server.asked();
    host.staged(&os, &[], "2 of them reused")?;
    ensure!(server.asked().is_empty());
    // The same image elsewhere is the same image.
    let elsewhere = json!({ "sysexts": [wants("https://localhost:1/tools.raw", &tools)] });
    host.staged(&elsewhere, &[], "1 of them reused")?;

    let raw = sysext("raw", b"x")?;
    let cases = [
        (registry(&server, "none", &[], true), "has 0 layers"),
        (registry(&server, "many", &[(&raw, None), (&conf, None)], true), "has 2 layers"),
        (registry(&server, "title", &[(&raw, Some("other.raw"))], true), "must be called raw.raw"),
        (registry(&server, "other", &[(&conf, None)], true), "has not the wanted SHA-384"),
        (format!("oci://localhost:{}/acl/absent:1", server.port), "registry refused"),
        ("oci://tools:1".to_owned(), "with the registry's name"),
        ("oci://library/tools:1".to_owned(), "with the registry's name"),
    ];
    for (url, word) in cases {
        host.refuses(&json!({ "sysexts": [wants(&url, &raw)] }), &[], word)?;
    }
    Ok(())
}

/// Two wanted members of four, and one larger than all others.
fn cosi() -> Result<Cosi> {
    Cosi::new()
        .member("images/root.img.zst", noise(2_000_000))
        .with("sysexts", "tools", &sysext("tools", &noise(200_000))?)?
        .member("images/usr.img.zst", noise(2_000_000))
        .with("confexts", "conf", &confext("conf", &noise(50_000))?)
}

#[test]
fn only_wanted_members_of_a_cosi_file_travel_where_the_server_has_ranges() -> Result<()> {
    let cosi = cosi()?;
    let tar = cosi.tar();
    let wanted: usize = [1, 3].into_iter().map(|it: usize| cosi.members[it].2.len()).sum();
    let (host, server) = Host::with_server()?;
    server.put("/os.cosi", Resource::with_ranges(tar.clone()).header("etag", "\"1\""));
    let more = ["--cosi", &server.url("/os.cosi")];
    let said = host.staged(&json!({}), &more, "staged 2 extensions for slot b")?;
    ensure!(said.contains("images/tools.raw.zst: "), "{said}");
    let travelled = sent(&server.asked());
    ensure!(travelled > wanted && travelled < wanted + 150_000, "{travelled} for {wanted}");
    let set = host.set()?;
    let source = &set[0]["source"];
    ensure!(set[0]["name"] == "tools" && source["kind"] == "cosi", "{set}");
    ensure!(source["hash"] == format!("sha384:{}", sha384(&cosi.members[1].2)), "{set}");

    // What is there needs the metadata alone.
    host.staged(&json!({}), &more, "2 of them reused")?;
    let again = sent(&server.asked());
    ensure!(again < 40_000, "{again}");

    // Whole streams, whatever stands in the way of ranges.
    for (path, resource) in [
        ("/none.cosi", Resource::of(tar.clone())),
        ("/chunked.cosi", Resource { chunked: true, ..Resource::of(tar.clone()) }),
    ] {
        let (host, fresh) = Host::with_server()?;
        fresh.put(path, resource);
        host.staged(&json!({}), &["--cosi", &fresh.url(path)], "staged 2 extensions")?;
        ensure!(host.set()? == set, "{path}");
    }
    Ok(())
}

#[test]
fn a_cosi_file_may_be_a_file_or_of_a_registry() -> Result<()> {
    let cosi = cosi()?;
    let tar = cosi.tar();
    let (host, server) = Host::with_server()?;
    let path = host.file("os.cosi", &tar)?.display().to_string();
    std::fs::write(host.root().join("inside.cosi"), &tar)?;
    let ranges = registry(&server, "ranges", &[(&tar, None)], true);
    let whole = registry(&server, "whole", &[(&tar, None)], false);
    let metadata = sha384(cosi.metadata_text().as_bytes());
    for (location, by_parts) in
        [(path, true), ("file:///inside.cosi".to_owned(), true), (ranges, true), (whole, false)]
    {
        host.emptied()?;
        server.asked();
        let more = ["--cosi", &location, "--cosi-metadata-sha384", &metadata];
        host.staged(&json!({}), &more, "staged 2 extensions for slot b, 0 of them reused")?;
        let travelled = sent(&server.asked());
        ensure!((travelled < tar.len()) == by_parts, "{location}: {travelled}");
        ensure!(host.set()?[0]["source"]["location"] == "images/tools.raw.zst", "{location}");
        let other = ["--cosi", &location, "--cosi-metadata-sha384", &"0".repeat(96)];
        host.refuses(&json!({}), &other, "metadata.json has not the wanted SHA-384")?;
    }
    Ok(())
}

#[test]
fn both_sides_make_one_set_and_nothing_silently_wins() -> Result<()> {
    let cosi = cosi()?;
    let (host, server) = Host::with_server()?;
    let more = host.file("os.cosi", cosi.tar())?.display().to_string();
    let more = ["--cosi", more.as_str()];
    let extra = sysext("extra", b"x")?;
    server.put("/extra.raw", Resource::of(extra.clone()));
    let extra = wants(&server.url("/extra.raw"), &extra);
    host.staged(&json!({ "sysexts": [extra] }), &more, "staged 3 extensions")?;

    let same = sysext("tools", &noise(200_000))?;
    server.put("/tools.raw", Resource::of(same.clone()));
    let same = wants(&server.url("/tools.raw"), &same);
    host.refuses(
        &json!({ "sysexts": [same] }),
        &more,
        "another image of the set stands at sysexts/tools.raw",
    )?;
    // By another name it is the same extension all the same.
    let other = image("usr/lib", "other", b"x", "ID=_any\nSYSEXT_ID=tools\n")?;
    server.put("/other.raw", Resource::of(other.clone()));
    let other = wants(&server.url("/other.raw"), &other);
    let twice = "the sysext id tools stands there twice";
    host.refuses(&json!({ "sysexts": [other] }), &more, twice)?;

    // One with a place of its own is none of the store's business, but its place is taken.
    let mut placed = cosi.clone();
    placed.metadata["extensions"]["sysexts"][0]["path"] = json!("/var/lib/extensions/tools.raw");
    let placed_path = host.file("placed.cosi", placed.tar())?.display().to_string();
    let placed_more = ["--cosi", placed_path.as_str()];
    host.staged(&json!({}), &placed_more, "staged 1 extensions")?;
    let at = json!({ "url": "https://localhost:1/x.raw", "sha384": "0".repeat(96),
        "path": "/var/lib/extensions/tools.raw" });
    host.refuses(&json!({ "sysexts": [at] }), &placed_more, "two extensions are to be at")?;
    placed.metadata["extensions"]["sysexts"][0]["scope"] = json!("slotted");
    let odd = host.file("odd.cosi", placed.tar())?.display().to_string();
    host.refuses(&json!({}), &["--cosi", &odd], "is slotted and has a path")?;

    // Where nothing is slotted, nothing that comes along is.
    host.staged(&json!({ "extensionMode": "shared" }), &more, "staged 0 extensions")?;
    let mut slotted = cosi;
    slotted.metadata["extensions"]["sysexts"][0]["scope"] = json!("slotted");
    let odd = host.file("odd.cosi", slotted.tar())?.display().to_string();
    host.refuses(&json!({ "extensionMode": "shared" }), &["--cosi", &odd], "the mode is shared")?;
    Ok(())
}

#[test]
fn on_a_terminal_there_is_a_bar_and_elsewhere_a_line() -> Result<()> {
    let (host, server) = Host::with_server()?;
    let raw = sysext("tools", &noise(600_000))?;
    server.put("/tools.raw", Resource::of(raw.clone()));
    let os = json!({ "os": { "sysexts": [wants(&server.url("/tools.raw"), &raw)] } });
    let wanted = host.file("wanted.json", os.to_string())?.display().to_string();
    let stage = host.command(&["stage", "--booted", "a", "--first", &wanted]);
    let words = std::iter::once(stage.get_program()).chain(stage.get_args());
    let line: Vec<_> = words.map(|it| it.to_string_lossy().into_owned()).collect();
    let mut terminal = std::process::Command::new("script");
    terminal.args(["-qec", &line.join(" "), "/dev/null"]);
    for (name, value) in stage.get_envs() {
        match value {
            Some(value) => terminal.env(name, value),
            None => terminal.env_remove(name),
        };
    }
    let shown = crate::host::said(&terminal.output()?);
    let url = server.url("/tools.raw");
    ensure!(shown.contains(&format!("\r{url} [####################] 100 %")), "{shown:?}");
    let steps = shown.matches(&format!("\r{url} [")).count();
    ensure!((2..=101).contains(&steps), "{steps} steps: {shown:?}");
    host.emptied()?;
    let said = host.staged(&os["os"], &[], "staged 1")?;
    ensure!(!said.contains(['\r', '#']) && said.contains(&format!("{url}: {} bytes\n", raw.len())));
    Ok(())
}

/// The second says who is at work, or waits until the first is done.
#[test]
fn of_two_stagings_at_once_the_second_waits_or_says_who_is_first() -> Result<()> {
    let (host, server) = Host::with_server()?;
    let (one, two) = (sysext("one", b"x")?, sysext("two", b"x")?);
    let gate = Arc::new(Mutex::new(()));
    let gated = Resource { gate: Some(Arc::clone(&gate)), ..Resource::of(one.clone()) };
    server.put("/one.raw", gated);
    server.put("/two.raw", Resource::of(two.clone()));
    let wanted = |name: &str, raw: &[u8]| -> Result<String> {
        let os = json!({ "os": { "sysexts": [wants(&server.url(&format!("/{name}.raw")), raw)] } });
        Ok(host.file(&format!("{name}.json"), os.to_string())?.display().to_string())
    };
    let (one, two) = (wanted("one", &one)?, wanted("two", &two)?);
    let stage = |wanted: &str, more: &[&str]| {
        let mut command = host.command(&["stage", "--booted", "a", "--first", wanted]);
        command.args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let held = gate.lock().unwrap();
    let first = stage(&one, &[]).spawn()?;
    server.wait_asked();
    let refused = stage(&two, &[]).output()?;
    let holder = format!("process {} works on the store", first.id());
    ensure!(refused.status.code() == Some(75), "{refused:?}");
    ensure!(crate::host::said(&refused).contains(&holder), "{refused:?}");
    let second = stage(&two, &["--wait"]).spawn()?;
    drop(held);
    let (first, second) = (first.wait_with_output()?, second.wait_with_output()?);
    ensure!(first.status.success() && second.status.success(), "{first:?} {second:?}");
    let set = host.set()?;
    ensure!(set.as_array().map(Vec::len) == Some(1) && set[0]["name"] == "two", "{set}");
    Ok(())
}
