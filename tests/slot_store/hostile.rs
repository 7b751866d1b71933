//! What strangers send: refused with a sentence, nothing published, nothing else touched.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::host::{Cosi, Host, noise, put, sha384, sysext, zstd};
use crate::server::Resource;

/// A host with a set, so that there is something to lose.
fn with_a_set(host: &Host) -> Result<()> {
    std::fs::write(host.root().join("old.raw"), sysext("old", b"old")?)?;
    let old = json!({ "url": "file:///old.raw", "scope": "slotted",
        "sha384": sha384(&std::fs::read(host.root().join("old.raw"))?) });
    host.staged(&json!({ "sysexts": [old] }), &[], "staged 1")?;
    ensure!(host.command(&["confirm"]).output()?.status.success());
    Ok(())
}

fn cosi(content: &[u8]) -> Result<Cosi> {
    Cosi::new().with("sysexts", "tools", &sysext("tools", content)?)
}

/// The image's entry in the metadata, with one thing changed.
fn changed(cosi: &Cosi, field: &str, value: Value) -> Vec<u8> {
    let mut cosi = cosi.clone();
    cosi.metadata["extensions"]["sysexts"][0]["image"][field] = value;
    cosi.tar()
}

/// The member's header, with one thing changed.
fn as_kind(cosi: &Cosi, kind: u8) -> Vec<u8> {
    let mut cosi = cosi.clone();
    cosi.members[0].1 = kind;
    cosi.tar()
}

/// Another member's bytes for the entry, which says the truth of them.
fn with_member(bytes: Vec<u8>, uncompressed: u64) -> Result<Vec<u8>> {
    let mut cosi = cosi(b"x")?;
    let image = &mut cosi.metadata["extensions"]["sysexts"][0]["image"];
    image["compressedSize"] = json!(bytes.len());
    image["uncompressedSize"] = json!(uncompressed);
    image["sha384"] = json!(sha384(&bytes));
    cosi.members[0].2 = bytes;
    Ok(cosi.tar())
}

/// A frame of run-length blocks: 4 bytes for each 128 KiB.
fn bomb(blocks: usize) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    for number in 1..=blocks {
        let header = (0x2_0000_u32 << 3) | (1 << 1) | u32::from(number == blocks);
        frame.extend(&header.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}

/// Each is a COSI file, and a word of why it is refused.
fn files() -> Result<Vec<(&'static str, Vec<u8>, &'static str)>> {
    let good = cosi(&noise(100_000))?;
    let entry = good.metadata["extensions"]["sysexts"][0].clone();
    let listed = |entries: Vec<Value>| {
        let mut cosi = good.clone();
        cosi.metadata["extensions"]["sysexts"] = json!(entries);
        cosi.tar()
    };
    let text = good.metadata_text();
    let twice = |old: &str, new: &str| good.tar_with(&text.replacen(old, new, 1));
    let many: Vec<_> = (0..10_000)
        .map(|number| {
            let mut entry = entry.clone();
            entry["image"]["path"] = json!(format!("images/{number}.zst"));
            entry["image"]["sha384"] = json!(format!("{number:096x}"));
            entry
        })
        .collect();
    let mut crowded = Vec::new();
    (0..10_000).for_each(|number| put(&mut crowded, &format!("images/{number}"), b'0', b""));
    let crowded_late = {
        let mut tar = Vec::new();
        put(&mut tar, "metadata.json", b'0', text.as_bytes());
        tar.extend(&crowded);
        tar
    };
    let tar = good.tar();
    let compressed = good.members[0].2.clone();
    let mut broken = compressed.clone();
    broken.truncate(compressed.len() / 2);
    let raw = sysext("tools", b"raw")?;
    let mut flipped = tar.clone();
    let middle = tar.len() - compressed.len() / 2;
    flipped[middle] ^= 1;
    let mut header = tar.clone();
    let second = 512 + text.len().next_multiple_of(512);
    header[second + 100] ^= 1;
    let pax = |record: &str| {
        let mut tar = Vec::new();
        put(&mut tar, "metadata.json", b'0', text.as_bytes());
        put(&mut tar, "pax", b'x', record.as_bytes());
        put(&mut tar, "images/tools.raw.zst", b'0', &compressed);
        tar
    };
    let long = |kind: u8, length: usize| {
        let mut tar = Vec::new();
        put(&mut tar, "././@LongLink", kind, &vec![b'a'; length]);
        tar.extend(good.tar());
        tar
    };
    let path = |path: &str| changed(&good, "path", json!(path));
    Ok(vec![
        ("no tar", noise(4096), "no tar"),
        ("nothing", Vec::new(), "no metadata.json"),
        ("half a header", tar[..300].to_vec(), "in the middle of a member"),
        ("half of the metadata", tar[..700].to_vec(), "in the middle of a member"),
        ("a broken header", header, "broken at byte"),
        ("no metadata", crowded[..512 * 3].to_vec(), "no metadata.json"),
        (
            "metadata that is a link",
            {
                let mut tar = Vec::new();
                put(&mut tar, "metadata.json", b'2', b"");
                tar
            },
            "no regular file",
        ),
        ("metadata that is none", good.tar_with("[]"), "cannot be understood"),
        (
            "extensions that are a list",
            {
                let mut list = good.clone();
                list.metadata["extensions"] = json!([]);
                list.tar()
            },
            "cannot be understood",
        ),
        ("metadata with NUL", good.tar_with(&text.replace("1.1", "\0")), "cannot be understood"),
        ("10,000 members", crowded, "more than 4096 members"),
        ("10,000 members after it", crowded_late, "more than 4096 members"),
        ("10,000 extensions", listed(many), "lists 10000 extensions"),
        ("the same twice", listed(vec![entry.clone(), entry.clone()]), "stands there twice"),
        ("a duplicate key", twice("\"sha384\":", "\"sha384\":\"\",\"sha384\":"), "SHA-384"),
        (
            "a duplicate section",
            twice("\"extensions\":", "\"extensions\":{},\"extensions\":"),
            "duplicate field",
        ),
        ("a path that goes up", path("images/../../etc/passwd"), "no image below images/"),
        ("a path outside", path("metadata.json"), "no image below images/"),
        ("an absolute path", path("/etc/passwd"), "no image below images/"),
        ("a path with NUL", path("images/a\0b"), "no image below images/"),
        ("an empty path", path("images/"), "no image below images/"),
        ("a hidden path", path("images/.x"), "no image below images/"),
        ("a member that is not there", path("images/other.zst"), "has no images/other.zst"),
        (
            "a member elsewhere",
            {
                let mut outside = good.clone();
                outside.members[0].0 = "tools.raw.zst".to_owned();
                outside.tar()
            },
            "has no images/tools.raw.zst",
        ),
        ("a negative size", changed(&good, "compressedSize", json!(-1)), "cannot be understood"),
        (
            "a wrong compressed size",
            changed(&good, "compressedSize", json!(7)),
            "its metadata says 7",
        ),
        ("too small a size", changed(&good, "uncompressedSize", json!(4096)), "should have 4096"),
        (
            "too large a size",
            changed(&good, "uncompressedSize", json!(1_000_000)),
            "should have 1000000",
        ),
        (
            "more than there is room for",
            changed(&good, "uncompressedSize", json!(8_u64 << 40)),
            "no room in the store",
        ),
        (
            "the largest size",
            changed(&good, "uncompressedSize", json!(u64::MAX)),
            "no room in the store",
        ),
        (
            "another hash",
            changed(&good, "sha384", json!("0".repeat(96))),
            "not the SHA-384 of the metadata",
        ),
        ("a hash that is none", changed(&good, "sha384", json!("x")), "SHA-384"),
        ("a flipped bit", flipped, "compressed"),
        ("a hard link", as_kind(&good, b'1'), "no regular file"),
        ("a link", as_kind(&good, b'2'), "no regular file"),
        ("a device", as_kind(&good, b'3'), "no regular file"),
        ("a directory", as_kind(&good, b'5'), "no regular file"),
        ("a pipe", as_kind(&good, b'6'), "no regular file"),
        ("a sparse member", as_kind(&good, b'S'), "sparse"),
        ("a sparse member of the new kind", pax("22 GNU.sparse.major=1\n"), "sparse"),
        ("a size that is none", pax("10 size=x\n"), "broken"),
        ("a size that wraps", pax("29 size=18446744073709551615\n"), "broken"),
        ("a record that is none", pax("99 size=1\n"), "broken"),
        ("a longer name than any", long(b'L', 100_000), "name is longer"),
        ("longer records than any", long(b'x', 100_000), "name is longer"),
        ("an uncompressed member", with_member(raw.clone(), raw.len() as u64)?, "zstd"),
        ("half a frame", with_member(broken, 100_000)?, "zstd, or broken"),
        ("a bomb", with_member(bomb(1_000_000), 1 << 20)?, "should have 1048576"),
        (
            "a window that nobody has room for",
            with_member(vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 1, 0, 0], 1)?,
            "zstd, or broken",
        ),
        (
            "a tail",
            with_member([zstd(&raw, &[])?, noise(100)].concat(), raw.len() as u64)?,
            "zstd, or broken",
        ),
        ("an image that is none", with_member(zstd(b"#!/bin/sh", &[])?, 9)?, "cannot be mounted"),
    ])
}

#[test]
fn a_hostile_cosi_file_is_refused_and_touches_nothing() -> Result<()> {
    let (host, server) = Host::with_server()?;
    with_a_set(&host)?;
    for (case, bytes, word) in files()? {
        let path = host.file("hostile.cosi", &bytes)?.display().to_string();
        server.put("/ranges.cosi", Resource::with_ranges(bytes.clone()));
        server.put("/whole.cosi", Resource::of(bytes));
        for location in [path, server.url("/ranges.cosi"), server.url("/whole.cosi")] {
            let refused = host.refuses(&json!({}), &["--cosi", &location], word);
            refused.map_err(|it| it.context(format!("{case}, {location}")))?;
        }
    }
    Ok(())
}

/// Frames one after the other, and what a decoder skips, are one image.
#[test]
fn all_that_zstd_allows_is_one_image() -> Result<()> {
    let host = Host::new()?;
    let raw = sysext("tools", &noise(100_000))?;
    let (left, right) = raw.split_at(50_000);
    let skipped = [b"\x50\x2a\x4d\x18\x03\x00\x00\x00".as_slice(), b"abc"].concat();
    let ways = [
        [zstd(left, &["-1"])?, zstd(right, &["-19", "--long=27"])?].concat(),
        [skipped.clone(), zstd(left, &[])?, skipped.clone(), zstd(right, &[])?, skipped].concat(),
        zstd(&raw, &["--no-check"])?,
        zstd(&raw, &["--ultra", "-22"])?,
        zstd(&[], &[])?.into_iter().chain(zstd(&raw, &[])?).collect(),
    ];
    for bytes in ways {
        host.emptied()?;
        let tar = with_member(bytes, raw.len() as u64)?;
        let path = host.file("good.cosi", tar)?.display().to_string();
        host.staged(&json!({}), &["--cosi", &path], "staged 1")?;
        ensure!(host.set()?[0]["sha384"] == sha384(&raw));
    }
    Ok(())
}

#[test]
fn a_hostile_server_is_refused_and_touches_nothing() -> Result<()> {
    let (host, server) = Host::with_server()?;
    with_a_set(&host)?;
    let raw = sysext("tools", &noise(200_000))?;
    let half = Some(raw.len() / 2);
    let good = || Resource::of(raw.clone());
    let status = |status| Resource { status: Some(status), ..Resource::of("<html>Sign in</html>") };
    let plain = format!("http://localhost:{}/tools.raw", server.port);
    let cases = [
        ("it breaks off", Resource { cut: half, ..good() }, "cannot copy"),
        (
            "it breaks off with ranges",
            Resource { cut: half, ranges: true, ..good() },
            "cannot copy",
        ),
        ("no length", Resource { chunked: true, ..good() }, "does not say how large"),
        ("a sign-in page", Resource::of("<html>Sign in</html>"), "has not the wanted SHA-384"),
        ("not there", status(404), "status 404"),
        ("not allowed", status(403), "status 403"),
        ("away", status(503), "status 503"),
        ("to http", Resource::moved(&plain), "the request failed"),
        ("in a circle", Resource::moved(&server.url("/tools.raw")), "the request failed"),
        (
            "another part",
            {
                let other = Resource { status: Some(206), ..good() };
                other.header("content-range", "bytes 5-5/10")
            },
            "another part",
        ),
        (
            "a size that is a lie",
            {
                let lie = Resource { status: Some(206), ..good() };
                lie.header("content-range", "bytes 0-0/9000000000000000")
            },
            "no room",
        ),
    ];
    for (case, resource, word) in cases {
        server.put("/tools.raw", resource);
        let wanted = json!({ "url": server.url("/tools.raw"), "sha384": sha384(&raw),
            "scope": "slotted" });
        let refused = host.refuses(&json!({ "sysexts": [wanted] }), &[], word);
        refused.map_err(|it| it.context(case))?;
    }

    // A COSI file that breaks off in a member, and one that changes between its parts.
    let tar = cosi(&noise(200_000))?.tar();
    let cut = Some(tar.len() - 100_000);
    server.put("/cut.cosi", Resource { cut, ..Resource::of(tar.clone()) });
    host.refuses(&json!({}), &["--cosi", &server.url("/cut.cosi")], "images/tools.raw.zst")?;
    server.put("/part.cosi", Resource { cut: Some(50_000), ..Resource::with_ranges(tar) });
    host.refuses(&json!({}), &["--cosi", &server.url("/part.cosi")], "images/tools.raw.zst")?;

    // Nobody that is trusted, and nobody there.
    let wanted = |url: &str| {
        json!({ "sysexts": [{ "url": url, "sha384": sha384(&raw),
        "scope": "slotted" }] })
    };
    host.refuses(&wanted("https://localhost:1/tools.raw"), &[], "the request failed")?;
    for url in ["http://localhost/x.raw", "ftp://x/x.raw", "https://", "/x.raw", "https://a b/x"] {
        host.refuses(&wanted(url), &[], "has no URL of file")?;
    }
    host.refuses(&json!({}), &["--cosi", "http://localhost/x.cosi"], "no URL of file")?;
    host.refuses(&json!({}), &["--cosi", "/dev/zero"], "not a regular file")?;
    host.file(crate::server::CA, "no certificate")?;
    host.refuses(&wanted(&server.url("/tools.raw")), &[], "no CA certificate")?;
    Ok(())
}
