//! The command lines of the servers.

use std::path::Path;

pub(super) const ETCD: &str = "http://127.0.0.1:2379";

pub(super) fn etcd(directory: &Path) -> Vec<String> {
    let data = format!("--data-dir={}", directory.join("etcd").display());
    let peer = "http://127.0.0.1:2380";
    let fixed = [
        &format!("--listen-client-urls={ETCD}"),
        &format!("--advertise-client-urls={ETCD}"),
        &format!("--listen-peer-urls={peer}"),
        // A power cut of etcd is not what is tested here.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]
    .map(str::to_owned);
    [vec![data], fixed.to_vec()].concat()
}

/// As a cluster has it: client certificates, the node authoriser, NodeRestriction.
pub(super) fn kube_apiserver(directory: &Path, port: u16) -> Vec<String> {
    let file = |name: &str| directory.join(name).display().to_string();
    vec![
        format!("--etcd-servers={ETCD}"),
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={port}"),
        // There is nobody to tell where it is, and no route to guess it from.
        "--advertise-address=127.0.0.1".into(),
        "--endpoint-reconciler-type=none".into(),
        "--service-cluster-ip-range=10.0.0.0/24".into(),
        // An orderly stop ends the watches, rather than to wait for a minute until their clients do.
        "--shutdown-watch-termination-grace-period=2s".into(),
        "--authorization-mode=Node,RBAC".into(),
        "--enable-admission-plugins=NodeRestriction".into(),
        format!("--client-ca-file={}", file("ca.pem")),
        format!("--tls-cert-file={}", file("server.pem")),
        format!("--tls-private-key-file={}", file("server.key")),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={}", file("server.pem")),
        format!("--service-account-signing-key-file={}", file("server.key")),
    ]
}
