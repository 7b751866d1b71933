//! The request annotation: what it is taken for is a status by the contract in any case.

use trident_acl_agent::contract::{Code, Phase, Problem, Request, Status, Utc};
use trident_lab::schema::{self, Judgement};

use crate::mutate;

const SEEDS: [&str; 22] = [
    r#"{"schemaVersion":"1.0","nodeUpdateId":"550e8400-e29b-41d4-a716-446655440000","operationId":"c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90","operation":"stage","targetVersion":"202606.29.0","server":"https://u:p@nebraska.example.com/v1/update?q#f","appId":"11111111-2222-3333-4444-555555555555","track":"pin-202606.29.0"}"#,
    r#"{"schemaVersion":"1.0","nodeUpdateId":"550e8400-e29b-41d4-a716-446655440000","operationId":"c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90","operation":"rollback"}"#,
    // Parts to put in anywhere.
    "\"",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "1.0",
    "\\u0000",
    "\\ud800",
    "\\n",
    "\u{a0}",
    "\u{2028}",
    "\u{1f600}",
    r#","operation":"finalize""#,
    r#","targetVersion":"1""#,
    r#","x":[{}]"#,
    "[[[[[[[[[[[[[[[[",
    "%n$(id)",
];

#[test]
fn request() {
    mutate::each(&SEEDS, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let judgement = schema::judge(&text);
        let now = Utc::now();
        let status = match Request::parse(&text) {
            Ok(request) => {
                assert_eq!(judgement, Judgement::Valid, "{text}");
                let stored = serde_json::to_string(&request).unwrap();
                assert_eq!(serde_json::from_str::<Request>(&stored).unwrap(), request);
                let phase = Phase::from(request.operation());
                Status::begin(&request, phase, Some("1".to_owned()), now)
            }
            Err(broken) => {
                assert_ne!(judgement, Judgement::Valid, "{:?}: {text}", broken.problem);
                let why = broken.problem.to_string();
                assert!(why.len() < 300 && !why.chars().any(char::is_control), "{why}");
                let shown = matches!(broken.problem, Problem::Unknown(_));
                assert!(shown || !why.contains("://"), "{why}");
                let phase = broken.operation.into();
                Status::of(broken.node_update_id, broken.operation_id, phase, now).finish(
                    Code::InvalidRequest,
                    &why,
                    now,
                )
            }
        };
        let published = status.to_json();
        schema::check_status(&serde_json::from_str(&published).unwrap()).unwrap();
        assert_eq!(Status::from_json(&published), Some(status));
    });
}

/// What a forger writes in our place is one of ours, or nothing.
#[test]
fn status() {
    let request = Request::parse(SEEDS[0]).unwrap();
    let begun = Status::begin(&request, Phase::Stage, Some("1".to_owned()), Utc::from_second(1));
    let ended = begun.clone().finish(Code::OperationFailed, "why", Utc::from_second(2)).to_json();
    let begun = begun.to_json();
    let seeds = [&begun, &ended].map(String::as_str);
    let seeds = [&seeds[..], &SEEDS[2..], &["\"code\":\"Success\",", "0000-01-01T00:00:00Z"]];
    mutate::each(&seeds.concat(), |bytes| {
        if let Some(status) = Status::from_json(&String::from_utf8_lossy(bytes)) {
            let text = status.to_json();
            assert_eq!(Status::from_json(&text), Some(status), "{text}");
        }
    });
}
