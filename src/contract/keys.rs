use thiserror::Error;

/// The three annotation keys under one prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    pub request: String,
    pub status: String,
    pub commit_status: String,
}

/// Neither the prefix of an annotation's key, nor the name of a Node: the API server would refuse it.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "not a DNS subdomain (lower-case letters, digits, `-` and `.`, at most 253 bytes, each label \
     starting and ending with a letter or digit)"
)]
pub struct NotASubdomain;

impl Keys {
    pub fn new(prefix: &str) -> Result<Self, NotASubdomain> {
        if !is_dns_subdomain(prefix) {
            return Err(NotASubdomain);
        }
        Ok(Self {
            request: format!("{prefix}/update-request"),
            status: format!("{prefix}/update-status"),
            commit_status: format!("{prefix}/update-commit-status"),
        })
    }
}

/// What Kubernetes calls a DNS subdomain: a prefix of annotations, or the name of a Node.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

fn is_dns_label(label: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&label.len())
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}
