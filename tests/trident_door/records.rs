//! The daemon's log records.

use std::time::Instant;

use trident_lab::wire::v1::servicing_response::Response as Part;
use trident_lab::wire::v1::{FileLocation, Log};

use crate::daemon::{AMPLE, Daemon, Script, Socket, done, image, part, said};
use crate::heard::{Heard, OURS, THEIRS};

#[tokio::test]
async fn records_keep_their_level_and_place_and_nothing_else() {
    let mut log = Heard::listen();
    let place = FileLocation { path: "b.rs".into(), line: 9 };
    let full = Log {
        level: 2,
        message: "two\nlines \u{1b}[31m https://u:SECRET@h/i?sig=SECRET".into(),
        module: "m".into(),
        target: "t".into(),
        location: Some(place),
    };
    let items = vec![
        said(0, "unspecified"),
        said(1, "error"),
        part(Part::Log(full)),
        said(3, "info"),
        said(4, "debug"),
        said(5, "trace"),
        said(99, "unknown"),
        done(3, 2),
    ];
    let daemon = Daemon::scripted([Script::Answer(items)]);
    let socket = Socket::with(&daemon, false);
    socket.trident().commit(AMPLE).await.expect("a success");
    let records = log.so_far(THEIRS);
    let levels: Vec<&str> = records.iter().map(|record| record.level.as_str()).collect();
    assert_eq!(levels, ["INFO", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "INFO"]);
    let full = &records[2];
    assert_eq!(full.field("message"), "two\\nlines \\u{1b}[31m https://[hidden]@h/i?[hidden]");
    assert_eq!((full.field("trident_target"), full.field("trident_module")), ("t", "m"));
    assert_eq!((full.field("trident_file"), full.field("trident_line")), ("b.rs", "9"));
}

#[tokio::test]
async fn a_record_beyond_grpcs_default_limit_is_cut_not_fatal() {
    let mut log = Heard::listen();
    let long = "x".repeat(6 * 1024 * 1024);
    let daemon = Daemon::scripted([Script::Answer(vec![said(3, &long), done(3, 2)])]);
    let socket = Socket::with(&daemon, false);
    socket.trident().stage(&image(), AMPLE).await.expect("a success");
    let records = log.so_far(THEIRS);
    let message = records[0].field("message");
    assert!(message.len() < 33 * 1024 && message.ends_with("[cut]"), "{}", message.len());
}

/// journald takes 10,000 records of a unit in 30 s: the agent's own words must be among them.
#[tokio::test]
async fn a_flood_of_records_is_cut_and_counted_but_what_is_urgent_still_comes() {
    const FLOOD: usize = 100_000;
    let begun = Instant::now();
    let mut log = Heard::listen();
    let flood = (0..FLOOD).map(|n| said(3, &format!("record {n}")));
    let items = flood.chain([said(1, "the disk is full"), done(3, 2)]).collect();
    let daemon = Daemon::scripted([Script::Answer(items)]);
    let socket = Socket::with(&daemon, false);
    socket.trident().stage(&image(), AMPLE).await.expect("a success");
    let seconds = usize::try_from(begun.elapsed().as_secs()).expect("soon") + 1;
    let records = log.all();
    let (theirs, ours): (Vec<_>, Vec<_>) = records.iter().partition(|it| it.target() == THEIRS);
    assert!((2001..3000 + 50 * seconds).contains(&theirs.len()), "{}", theirs.len());
    assert_eq!(theirs.first().map(|it| it.field("message")), Some("record 0"));
    assert_eq!(theirs.last().map(|it| it.field("message")), Some("the disk is full"));
    let left_out = ours.iter().filter(|it| it.target().starts_with(OURS) && it.level == "WARN");
    let number = |text: &str| text.split(' ').find_map(|word| word.parse::<usize>().ok());
    let left_out: usize = left_out.filter_map(|it| number(it.field("message"))).sum();
    assert_eq!(theirs.len() + left_out, FLOOD + 1, "each is passed on or counted");
}
