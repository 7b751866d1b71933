//! The Node's name: from the host, from kubelet's certificate, or as it was set.

use std::path::Path;

use anyhow::{Result, ensure};
use trident_acl_agent::config::NodeName;
use trident_acl_agent::contract::chain;
use trident_acl_agent::host::Host;
use trident_acl_agent::kubernetes::node_name;
use trident_lab::kube::Kubelet;
use trident_lab::tls::Pki;

fn in_file(path: &Path) -> Result<String, String> {
    let source = NodeName::KubeletCert(path.to_owned());
    node_name(&source, "the-host").map_err(|error| chain(&error))
}

#[test]
fn kubelets_certificate_as_it_may_stand_in_its_file() -> Result<()> {
    let pki = Pki::new();
    let leaf = pki.kubelet_cert("node-1");
    let (cert, key) = (leaf.cert_pem.as_str(), leaf.key_pem.as_str());
    let other = pki.kubelet_cert("node-2").cert_pem;
    let again = pki.kubelet_cert("node-1").cert_pem;
    let ca = pki.ca_pem();
    let node_ca = Pki::named("system:node:ca").ca_pem();
    let serving = pki.server_cert(&["system:node:serving"]).cert_pem;
    let of = |cn: &str| pki.client_cert(cn, "system:nodes").cert_pem;
    let (somebody, nobody) = (of("system:serviceaccount:node-1"), of("system:node:"));
    let (upper, path) = (of("system:node:Node-1"), of("system:node:../pods/x?"));
    let text = "Bag Attributes\n  friendlyName: \u{fc}\n";
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let (good, none) = (Ok("node-1"), Err("no client certificate"));
    let cases: [(&str, &[&str], Result<&str, &str>); 19] = [
        ("certificate and key", &[cert, key], good),
        ("key and certificate", &[key, cert], good),
        ("with its chain", &[cert, &ca, key], good),
        ("the chain first", &[&ca, key, cert], good),
        ("a chain with a name like a Node's", &[&node_ca, cert, key], good),
        ("text in between", &[text, key, text, cert], good),
        ("something broken before it", &[broken, cert], good),
        ("the serving certificate before it", &[&serving, cert], good),
        ("the old one and the new one", &[cert, &again, key], good),
        ("of two Nodes", &[cert, &other, key], Err("several Nodes: node-1, node-2")),
        ("the CA alone", &[&ca], none),
        ("a CA with a name like a Node's", &[&node_ca], none),
        ("the serving certificate alone", &[&serving], none),
        ("somebody else's", &[&somebody, key], none),
        ("without a name", &[&nobody, key], none),
        ("in capitals", &[&upper, key], Err("\"Node-1\" is no name that a Node can have")),
        ("a path", &[&path, key], Err("is no name that a Node can have")),
        ("the key alone", &[key], none),
        ("nothing", &[""], none),
    ];
    let kubelet = Kubelet::new(&pki, "https://api.test", "node-9")?;
    for (name, parts, expected) in cases {
        kubelet.rotate_pem(&parts.concat())?;
        match (in_file(&kubelet.certificate()), expected) {
            (Ok(found), Ok(expected)) => ensure!(found == expected, "{name}: {found}"),
            (Err(said), Err(expected)) => {
                ensure!(said.contains(expected), "{name}: {said}");
                ensure!(!said.contains("PRIVATE"), "{name}: {said}");
            }
            (found, expected) => anyhow::bail!("{name}: {found:?} instead of {expected:?}"),
        }
    }
    kubelet.write("bytes", [0xff_u8, 0xfe, 0, 0x2d, 0x0a].repeat(1000))?;
    for path in ["bytes", "missing", "pki"] {
        let said = in_file(&kubelet.path(path)).err().unwrap_or_default();
        ensure!(said.contains(path), "{path}: {said}");
    }
    Ok(())
}

#[test]
fn a_name_that_was_set_wins_and_the_hosts_is_in_lower_case() -> Result<()> {
    let set = NodeName::Explicit("node-7".to_owned());
    ensure!(node_name(&set, "the-host")? == "node-7");
    ensure!(node_name(&NodeName::Hostname, "the-host")? == "the-host");
    let hostname = Host::new("/").hostname();
    ensure!(hostname == hostname.to_lowercase());
    for name in ["Node-7", "node 7", "a/b", "..", "-", "x".repeat(254).as_str()] {
        let set = NodeName::Explicit(name.to_owned());
        ensure!(node_name(&set, "the-host").is_err(), "{name}");
    }
    Ok(())
}
