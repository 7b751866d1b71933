//! Every status that a client writes is held to the contract: its schema, its key, and what it says of the
//! request that it answers.

use serde_json::Value;

use super::store::{Author, Change};
use crate::schema::{self, Judgement};

const REQUEST: &str = "/update-request";
const STATUS: &str = "/update-status";
const COMMIT_STATUS: &str = "/update-commit-status";
const NIL: &str = "00000000-0000-0000-0000-000000000000";

/// `InvalidRequest` by the node's own state or settings: of these no form and no schema knows. All of them,
/// by what their message says.
const BY_JUDGEMENT: [&str; 4] = [
    "is running on this node: wait for its commit",
    "still awaits its",
    "is not among this node's allowed servers",
    "is staged",
];

/// What is wrong with the newest change, by what there was before.
pub(crate) fn breach(before: &[Change], change: &Change) -> Option<String> {
    let Author::Client(_) = change.by else { return None };
    let is_commit = change.key.ends_with(COMMIT_STATUS);
    let suffix = if is_commit { COMMIT_STATUS } else { STATUS };
    let prefix = change.key.strip_suffix(suffix)?;
    let Some(text) = &change.value else {
        return Some(format!("{} was removed", change.key));
    };
    let Ok(status) = serde_json::from_str::<Value>(text) else {
        return Some(format!("{} is no JSON: {text}", change.key));
    };
    if let Err(problem) = schema::check_status(&status) {
        return Some(problem.to_string());
    }
    if (status["operation"] == "commit") != is_commit {
        return Some(format!("{}: {status}", change.key));
    }
    let key = format!("{prefix}{REQUEST}");
    let asked = before.iter().filter(|it| it.node == change.node && it.key == key);
    let asked: Vec<_> = asked.filter_map(|change| change.value.as_deref()).collect();
    agrees(&status, &asked).err().map(|why| format!("{why}: {status}, after {asked:#?}"))
}

/// Accepted is what the schema takes, and refused is what it does not, but for what it cannot say.
fn agrees(status: &Value, asked: &[&str]) -> Result<(), &'static str> {
    let id = status["operationId"].as_str().unwrap_or_default();
    let theirs = || asked.iter().filter(|text| id_of(text).eq_ignore_ascii_case(id));
    let valid = |text: &&&str| schema::judge(text) == Judgement::Valid;
    let message = status["message"].as_str().unwrap_or_default();
    let refused = status["code"] == "InvalidRequest";
    match refused {
        true if BY_JUDGEMENT.iter().any(|why| message.contains(why)) => Ok(()),
        true if id == NIL && !asked.iter().all(|text| valid(&text)) => Ok(()),
        true if theirs().next().is_some() && theirs().all(|text| valid(&text)) => {
            Err("refused, though its schema takes it")
        }
        true if theirs().next().is_none() => Err("refused, though nobody asked"),
        false if theirs().next().is_some() && !theirs().any(|text| valid(&text)) => {
            Err("accepted, though its schema does not take it")
        }
        // What a test put into the state, or onto the Node, was asked by nobody.
        _ => Ok(()),
    }
}

fn id_of(text: &str) -> String {
    let request: Value = serde_json::from_str(text).unwrap_or_default();
    request["operationId"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::json;

    use super::*;

    const ID: &str = "c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90";

    fn change(key: &str, value: Option<Value>, by: &Author) -> Change {
        Change {
            at: Instant::now(),
            node: "node-1".to_owned(),
            key: format!("x.example{key}"),
            value: value.map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned)),
            by: by.clone(),
            resource_version: 1,
        }
    }

    fn rollback() -> Value {
        json!({
            "schemaVersion": "1.0",
            "nodeUpdateId": ID,
            "operationId": ID.to_uppercase(),
            "operation": "rollback",
        })
    }

    fn status(code: &str, message: &str) -> Value {
        let mut status = json!({
            "schemaVersion": "1.0",
            "nodeUpdateId": ID,
            "operationId": ID,
            "operation": "rollback",
            "code": code,
            "message": message,
            "tridentVersion": "1",
            "startedUtc": "2026-01-01T00:00:00Z",
            "lastUpdatedUtc": "2026-01-01T00:00:00Z",
        });
        if code != "InProgress" {
            status["finishedUtc"] = json!("2026-01-01T00:00:00Z");
        }
        status
    }

    fn with(mut value: Value, field: &str, to: Value) -> Value {
        value[field] = to;
        value
    }

    #[test]
    fn each_breach_is_seen_and_nothing_else() {
        let agent = Author::Client("system:node:node-1".to_owned());
        let broken = with(rollback(), "typo", json!(1));
        let nil = with(status("InvalidRequest", "`typo`"), "operationId", json!(NIL));
        let commit = with(status("InProgress", ""), "operation", json!("commit"));
        let (begun, refused) = (status("InProgress", ""), status("InvalidRequest", "`typo`"));
        let busy = status("InvalidRequest", "finalize x still awaits its commit");
        // Key, what was asked, what is said of it, and whether that is a breach.
        let table: [(&str, Option<Value>, Option<Value>, bool); 19] = [
            (STATUS, Some(rollback()), Some(begun.clone()), false),
            (STATUS, Some(rollback()), Some(status("Success", "")), false),
            (STATUS, Some(broken.clone()), Some(refused.clone()), false),
            (STATUS, Some(json!("nonsense")), Some(nil.clone()), false),
            (STATUS, Some(rollback()), Some(busy), false),
            (STATUS, None, Some(status("Success", "")), false),
            (COMMIT_STATUS, Some(rollback()), Some(commit.clone()), false),
            (STATUS, Some(rollback()), None, true),
            (STATUS, Some(rollback()), Some(json!("nonsense")), true),
            (STATUS, Some(rollback()), Some(with(begun.clone(), "extra", json!(1))), true),
            (STATUS, Some(rollback()), Some(with(begun.clone(), "message", json!(null))), true),
            (STATUS, Some(rollback()), Some(with(begun.clone(), "code", json!("Success"))), true),
            (COMMIT_STATUS, Some(rollback()), Some(begun.clone()), true),
            (STATUS, Some(rollback()), Some(commit), true),
            (STATUS, Some(rollback()), Some(refused.clone()), true),
            (STATUS, Some(rollback()), Some(nil), true),
            (STATUS, None, Some(refused), true),
            (STATUS, Some(broken.clone()), Some(begun), true),
            (STATUS, Some(broken), Some(status("NotStaged", "")), true),
        ];
        for (row, (key, asked, said, wrong)) in table.into_iter().enumerate() {
            let before: Vec<_> =
                asked.into_iter().map(|it| change(REQUEST, Some(it), &Author::Test)).collect();
            let breach = breach(&before, &change(key, said.clone(), &agent));
            assert_eq!(breach.is_some(), wrong, "row {row}: {breach:?}");
            let theirs = super::breach(&before, &change(key, said, &Author::Test));
            assert_eq!(theirs, None, "a test may write what it likes");
        }
    }
}
