//! Reads a kubeconfig as kube does, but by way of plain values: the YAML reader is compiled anew for each type
//! that it fills, and a kubeconfig has many. And an error never quotes the file, which may hold a token.

use std::hash::{Hash, Hasher};
use std::path::Path;

use kube::config::{AuthInfo, Kubeconfig, KubeconfigError};
use serde::de::Error as _;
use serde_json::Value;
use serde_saphyr::Error as YamlError;

/// `hasher` is fed the file's text.
///
/// # Errors
/// The file cannot be read, or is no kubeconfig.
pub(super) fn read(path: &Path, hasher: &mut impl Hasher) -> Result<Kubeconfig, KubeconfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| KubeconfigError::ReadConfig(source, path.into()))?;
    text.hash(hasher);
    let mut config = parse(&text)?;
    if let Some(directory) = path.parent() {
        make_absolute(&mut config, directory);
    }
    Ok(config)
}

fn parse(text: &str) -> Result<Kubeconfig, KubeconfigError> {
    let options = serde_saphyr::options! { with_snippet: false };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(refused)?;
    let mut merged = Kubeconfig::default();
    for mut document in documents {
        drop_empty(&mut document);
        // The cause would quote what it cannot use.
        let config = serde_json::from_value(document)
            .map_err(|_quoting| refused(YamlError::custom("it is YAML, but no kubeconfig")))?;
        merged = merged.merge(config)?;
    }
    Ok(merged)
}

/// client-go takes what is empty for what is not there, and tools write it so.
fn drop_empty(document: &mut Value) {
    for (list, held) in [("clusters", "cluster"), ("users", "user")] {
        let named = document.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for fields in named.filter_map(|it| it.get_mut(held)?.as_object_mut()) {
            fields.retain(|_, value| value != "");
        }
    }
}

fn refused(source: YamlError) -> KubeconfigError {
    KubeconfigError::Parse(Box::new(source))
}

/// Paths are relative to the file that names them.
fn make_absolute(config: &mut Kubeconfig, directory: &Path) {
    let clusters = config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut());
    clusters.for_each(|cluster| resolve(&mut cluster.certificate_authority, directory));
    let users = config.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut());
    users.for_each(|user| resolve_user(user, directory));
}

fn resolve_user(user: &mut AuthInfo, directory: &Path) {
    resolve(&mut user.client_certificate, directory);
    resolve(&mut user.client_key, directory);
    resolve(&mut user.token_file, directory);
}

fn resolve(file: &mut Option<String>, directory: &Path) {
    if let Some(file) = file.as_mut().filter(|file| Path::new(file).is_relative()) {
        *file = directory.join(&*file).display().to_string();
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::hash::DefaultHasher;

    use super::*;

    const TEXT: &str = "\
apiVersion: v1
kind: Config
clusters:
- name: here
  cluster: { server: 'https://api.test:6443', certificate-authority: pki/ca.crt }
users:
- name: kubelet
  user:
    client-certificate: /var/lib/kubelet/pki/current.pem
    client-key: pki/key.pem
    tokenFile: token
    exec: { apiVersion: client.authentication.k8s.io/v1, command: login }
contexts:
- name: only
  context: { cluster: here, user: kubelet }
current-context: only
";

    /// What kube's own reader makes of it is what ours does.
    #[test]
    fn it_reads_as_kube_does() -> Result<(), Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("kubeconfig");
        let second =
            "---\napiVersion: v1\nkind: Config\nusers:\n- name: other\n  user: {token: secret}\n";
        for text in [TEXT.to_owned(), format!("{TEXT}{second}"), String::new()] {
            #[expect(clippy::disallowed_methods, reason = "a test's own file")]
            std::fs::write(&path, text)?;
            let (ours, kubes) =
                (read(&path, &mut DefaultHasher::new())?, Kubeconfig::read_from(&path)?);
            assert_eq!(serde_json::to_value(&ours)?, serde_json::to_value(&kubes)?);
        }
        Ok(())
    }

    #[test]
    fn an_error_does_not_quote_the_file() {
        for text in
            ["users:\n- name: a\n  user:\n    token: s3cret\n   x: [", "users: s3cret", "- s3cret"]
        {
            let said = parse(text).map(drop).expect_err("is no kubeconfig").to_string();
            assert!(!said.contains("s3cret"), "{said}");
        }
    }
}
