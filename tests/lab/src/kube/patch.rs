//! PATCH of a Node: RFC 7386, and what the real server checks before it stores the result.

use hyper::StatusCode;
use serde_json::{Map, Value};

use super::answer::Refusal;
use super::auth::User;

/// All annotations of one object together, keys and values, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The Node after the patch; nothing is stored here.
pub(super) fn apply(
    stored: &Value,
    user: &User,
    content_type: Option<&str>,
    body: &[u8],
) -> Result<Value, Refusal> {
    let media = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !matches!(media, "application/merge-patch+json" | "application/strategic-merge-patch+json") {
        return Err(unsupported());
    }
    let patch: Value = serde_json::from_slice(body)
        .map_err(|e| Refusal::bad_request(format!("error decoding patch: {e}")))?;
    if !patch.is_object() {
        return Err(Refusal::bad_request("error decoding patch: not an object"));
    }
    check_preconditions(stored, &patch)?;
    let mut merged = stored.clone();
    merge(&mut merged, &patch);
    restore(&mut merged, stored);
    check_maps(&mut merged)?;
    check_annotations(&merged)?;
    check_restrictions(stored, &merged, user)?;
    Ok(merged)
}

fn unsupported() -> Refusal {
    let message = "415: Unsupported Media Type".to_owned();
    Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
}

/// RFC 7386, section 2.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { unreachable!("made an object above") };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

fn check_preconditions(stored: &Value, patch: &Value) -> Result<(), Refusal> {
    let name = stored["metadata"]["name"].as_str().unwrap_or_default();
    let differs = |key: &str| {
        patch["metadata"].get(key).is_some_and(|wanted| *wanted != stored["metadata"][key])
    };
    if differs("name") {
        return Err(Refusal::bad_request(format!(
            "the name of the object does not match the name on the URL ({name})"
        )));
    }
    // The real server takes a uid for a field that must not change.
    if differs("uid") {
        let uid = patch["metadata"]["uid"].as_str().unwrap_or_default();
        let problem = format!("Invalid value: \"{uid}\": field is immutable");
        return Err(Refusal::invalid(name, "FieldValueInvalid", "metadata.uid", &problem));
    }
    match differs("resourceVersion") {
        true => Err(Refusal::conflict(name)),
        false => Ok(()),
    }
}

/// What this endpoint never changes.
fn restore(merged: &mut Value, stored: &Value) {
    for key in ["kind", "apiVersion", "status"] {
        merged[key] = stored[key].clone();
    }
    if !merged["metadata"].is_object() {
        merged["metadata"] = stored["metadata"].clone();
    }
    for key in ["name", "uid", "creationTimestamp", "resourceVersion", "managedFields"] {
        merged["metadata"][key] = stored["metadata"][key].clone();
    }
}

/// Labels and annotations hold strings, and an empty map is left out.
fn check_maps(merged: &mut Value) -> Result<(), Refusal> {
    for field in ["annotations", "labels"] {
        let map = &merged["metadata"][field];
        let entries = map.as_object().map(Map::values).into_iter().flatten();
        if !(map.is_object() || map.is_null()) || entries.clone().any(|v| !v.is_string()) {
            return Err(Refusal::invalid_patch(&format!(
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.{field} of type string"
            )));
        }
        if entries.count() == 0 {
            merged["metadata"].as_object_mut().and_then(|metadata| metadata.remove(field));
        }
    }
    Ok(())
}

fn check_annotations(merged: &Value) -> Result<(), Refusal> {
    let name = merged["metadata"]["name"].as_str().unwrap_or_default();
    let annotations = merged["metadata"]["annotations"].as_object();
    let entries = || annotations.into_iter().flatten();
    if let Some((key, _)) = entries().find(|(key, _)| !is_qualified_name(key)) {
        let problem = format!(
            "Invalid value: \"{key}\": name part must consist of alphanumeric characters, '-', '_' or '.'"
        );
        return Err(Refusal::invalid(name, "FieldValueInvalid", "metadata.annotations", &problem));
    }
    let size: usize = entries().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_LIMIT {
        let problem = format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes");
        return Err(Refusal::invalid(name, "FieldValueTooLong", "metadata.annotations", &problem));
    }
    Ok(())
}

fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(p, n)| (Some(p), n));
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let good_name = (1..=63).contains(&name.len())
        && edge(name.chars().next())
        && edge(name.chars().last())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let good_prefix = |p: &str| (1..=253).contains(&p.len()) && p.split('.').all(is_dns_label);
    // The real server lower-cases annotation keys before it looks at the prefix.
    good_name && prefix.is_none_or(|p| good_prefix(&p.to_ascii_lowercase()))
}

fn is_dns_label(label: &str) -> bool {
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// NodeRestriction, as far as an agent could run into it.
fn check_restrictions(stored: &Value, merged: &Value, user: &User) -> Result<(), Refusal> {
    let Some(node) = user.own_node() else {
        return Ok(());
    };
    let name = stored["metadata"]["name"].as_str().unwrap_or_default();
    if node != name {
        let why = format!("node \"{node}\" is not allowed to modify node \"{name}\"");
        return Err(Refusal::forbidden(name, &why));
    }
    if stored["spec"]["taints"] != merged["spec"]["taints"] {
        let why = format!("node \"{node}\" is not allowed to modify taints");
        return Err(Refusal::forbidden(name, &why));
    }
    let (old, new) = (&stored["metadata"]["labels"], &merged["metadata"]["labels"]);
    let keys = [old, new].into_iter().filter_map(Value::as_object).flat_map(Map::keys);
    let restricted = |key: &&String| key.contains("node-restriction.kubernetes.io/");
    match keys.filter(restricted).find(|key| old.get(key) != new.get(key)) {
        Some(key) => {
            let why = format!("node \"{node}\" is not allowed to modify labels: {key}");
            Err(Refusal::forbidden(name, &why))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The examples of RFC 7386, appendix A.
    #[test]
    fn merges_as_the_rfc_says() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (mut target, patch, wanted) in cases {
            merge(&mut target, &patch);
            assert_eq!(target, wanted, "{patch}");
        }
    }

    #[test]
    fn annotation_keys_are_qualified_names() {
        for good in ["a", "acl.microsoft.com/update-status", "A_b.c", "ACL.example/x"] {
            assert!(is_qualified_name(good), "{good}");
        }
        for bad in ["", "/x", "a/", "a/b/c", "-a", "under_score/x", "a/x y"] {
            assert!(!is_qualified_name(bad), "{bad}");
        }
    }
}
