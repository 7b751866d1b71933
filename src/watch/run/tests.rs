use std::collections::BTreeMap;

use tokio::time::advance;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn node(uid: &str, resource_version: &str) -> Seen {
    Seen::Node(Node {
        uid: uid.to_owned(),
        resource_version: resource_version.to_owned(),
        annotations: BTreeMap::new(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_node_gone_for_too_long_ends_it_and_a_return_begins_anew() {
    let back = || node("a", "1");
    // Minutes that pass before each look; what it sees, whether the API server answers, whether it is over.
    type Steps = Vec<(u32, Seen, bool, bool)>;
    let cases: [(&str, Option<Duration>, Steps); 6] = [
        ("just gone", Some(10 * MINUTE), vec![(60, Seen::Gone, true, false)]),
        (
            "gone for as long as is allowed",
            Some(10 * MINUTE),
            vec![
                (0, Seen::Gone, true, false),
                (9, Seen::Gone, true, false),
                (1, Seen::Gone, true, true),
            ],
        ),
        (
            "back in between",
            Some(10 * MINUTE),
            vec![
                (0, Seen::Gone, true, false),
                (9, back(), true, false),
                (9, Seen::Gone, true, false),
                (9, Seen::Gone, true, false),
                (1, Seen::Gone, true, true),
            ],
        ),
        (
            "nobody knows",
            Some(10 * MINUTE),
            vec![
                (0, Seen::Gone, true, false),
                (99, Seen::Gone, false, false),
                (0, back(), true, false),
            ],
        ),
        (
            "never seen",
            Some(10 * MINUTE),
            vec![(0, Seen::Unknown, false, false), (99, Seen::Unknown, false, false)],
        ),
        ("no limit", None, vec![(0, Seen::Gone, true, false), (99_999, Seen::Gone, true, false)]),
    ];
    for (name, limit, steps) in cases {
        let mut gone = Gone::for_at_most(limit);
        for (minutes, seen, answers, over) in steps {
            advance(minutes * MINUTE).await;
            assert_eq!(gone.check(&seen, answers).is_err(), over, "{name}: {seen:?}");
        }
    }
}

#[test]
fn the_end_of_waiting_says_what_to_do() {
    let mut gone = Gone::for_at_most(Some(Duration::ZERO));
    let said = gone.check(&Seen::Gone, true).expect_err("it is over").to_string();
    for part in ["NODE_GONE_MAX_WAIT", "kubelet", "start trident-acl-agent.service"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn what_is_older_does_not_replace_what_is_known() {
    let cases = [
        ("an older version", node("a", "9"), node("a", "10"), true),
        ("the same", node("a", "10"), node("a", "10"), false),
        ("a newer version", node("a", "11"), node("a", "10"), false),
        ("another Node", node("b", "1"), node("a", "10"), false),
        ("no numbers", node("a", "x"), node("a", "y"), false),
        ("gone", Seen::Gone, node("a", "10"), false),
        ("back", node("a", "1"), Seen::Gone, false),
        ("nothing yet", Seen::Unknown, node("a", "1"), true),
        ("nothing at all", Seen::Unknown, Seen::Unknown, false),
    ];
    for (name, new, known, older) in cases {
        assert_eq!(is_older(&new, &known), older, "{name}");
    }
}

#[test]
fn the_slow_read_is_jittered() {
    let now = Instant::now();
    let waits: Vec<_> = (0..200).map(|_| (next_reread() - now).as_secs()).collect();
    assert!(waits.iter().all(|wait| (150..=450).contains(wait)), "{waits:?}");
    assert!(waits.iter().max() > waits.iter().min().map(|least| least + 100).as_ref(), "{waits:?}");
}
