//! What the slot loader and the stager read.

use std::path::{Component, Path};

use trident_acl_agent::slots::{
    Bundle, CommandLine, Kind, Manifest, Slot, Wanted, id_of, parse_release,
};

use super::mutate;

const WHOLE: &str = r#"{"schemaVersion":"1.0","slot":"a","mode":"acl","osVersion":"4.0","extensions":[
{"kind":"sysext","id":"tools","name":"tools","file":"sysexts/tools.raw","size":4096,
"sha384":"000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
"required":false,"source":{"kind":"oci","hash":
"sha256:0000000000000000000000000000000000000000000000000000000000000000","location":"r.example/t:1"},
"release":{"ID":"_any","SYSEXT_ID":"tools"}}]}"#;
const EMPTY: &str = r#"{"schemaVersion":"1.0","slot":"a","mode":"shared","extensions":[]}"#;

/// What is obeyed names nothing outside, and is written as what it was read as.
#[test]
fn manifest() {
    mutate::each(&[WHOLE, EMPTY], |bytes| {
        let Ok(manifest) = Manifest::parse(bytes, Slot::A) else { return };
        for extension in &manifest.extensions {
            let plain = |part| matches!(part, Component::Normal(_));
            assert!(Path::new(&extension.file).components().all(plain), "{}", extension.file);
            assert!(!extension.name.file_name().contains(['/', '\0']));
        }
        let written = serde_json::to_vec(&manifest).unwrap();
        assert_eq!(Manifest::parse(&written, Slot::A).unwrap(), manifest);
    });
}

const COSI: &str = r#"{"version":"1.1","images":[{"image":{"path":"images/root.img.zst"}}],"extensions":{"sysexts":[
{"image":{"path":"images/tools.raw.zst","compressedSize":512,"uncompressedSize":4096,
"sha384":"000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"}}],
"confexts":[{"image":{"path":"images/sub/conf.zst","compressedSize":1,"uncompressedSize":18446744073709551615,
"sha384":"111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111"},
"path":"/etc/x","scope":"shared"}]}}"#;

/// A member that is obeyed lies below `images/`, and the set that it makes has each once.
#[test]
fn cosi_metadata() {
    assert_eq!(Bundle::parse(COSI.as_bytes()).unwrap().members().count(), 2, "past the parser");
    let parts =
        [COSI, "..", "/", "images/", "\\u0000", "slotted", ",\"scope\":\"slotted\"", "[]", "{}"];
    let wanted: Wanted = serde_json::from_str(r#"{"os":{}}"#).unwrap();
    mutate::each(&parts, |bytes| {
        let Ok(bundle) = Bundle::parse(bytes) else { return };
        for member in bundle.members() {
            let path = Path::new(&member.path);
            let plain = |part| matches!(part, Component::Normal(_));
            assert!(path.starts_with("images") && path.components().all(plain), "{path:?}");
            assert!(!member.path.contains('\0') && path.components().count() > 1, "{path:?}");
        }
        let Ok(set) = wanted.slotted(Some(&bundle)) else { return };
        for (at, one) in set.iter().enumerate() {
            assert!(set.iter().take(at).all(|it| it != one), "{one:?}");
        }
    });
}

#[test]
fn command_line() {
    let whole =
        "root=/dev/sda2 trident.slot=a trident.extension_store=\"/srv/e x\" trident.confext=none";
    mutate::each(&[whole, "trident.slot=b trident.slot_verify=full"], |bytes| {
        let _either = CommandLine::parse(&String::from_utf8_lossy(bytes));
    });
}

/// A field says one thing, and an id is one component of a path.
#[test]
fn extension_release() {
    let whole = "ID=_any\nVERSION_ID=\"3.0\"\nSYSEXT_ID='tools'\nCONFEXT_ID=conf\n# x\nSYSEXT_SCOPE=a\\ b\n";
    mutate::each(&[whole, "ID=a\nSYSEXT_ID=b"], |bytes| {
        let Ok(fields) = parse_release(&String::from_utf8_lossy(bytes)) else { return };
        for kind in Kind::BOTH {
            if let Ok(id) = id_of(&fields, kind) {
                assert!(!id.as_str().contains(['/', '\0', '\n']) && !id.as_str().starts_with('.'));
            }
        }
    });
}
