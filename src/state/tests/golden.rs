//! Every format that was ever written stays readable: one file each in `tests/golden`, and what it says.

use std::path::{Path, PathBuf};

use crate::contract::{
    AGENT_VERSION, Code, Id, Location, Phase, Request, Status, TridentError, Update, Utc, Work,
};
use crate::state::{
    Arming, CommitRecord, Completed, EventKind, InFlight, Offer, OwedEvent, PendingCommit, Refused,
    Staged, State, Store, replace,
};

/// As the files' machine has it in `/etc/machine-id`.
const MACHINE_ID: &str = "0123456789abcdef0123456789abcdef";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn id(n: u32) -> Id {
    Id::parse(&format!("0000000A-0000-4000-8000-{n:012}")).unwrap()
}

fn at(second: i64) -> Utc {
    Utc::from_second(1_782_720_000 + second)
}

fn update() -> Update {
    Update {
        target_version: "202606.29.0".to_owned(),
        server: "https://nebraska.example.com/v1/update?key=1".parse().unwrap(),
        app_id: "11111111-2222-3333-4444-555555555555".to_owned(),
        track: "stable".to_owned(),
    }
}

fn request(n: u32, work: Work) -> Request {
    Request { node_update_id: id(1), operation_id: id(n), work }
}

fn offer() -> Offer {
    Offer {
        version: "202606.29.0".to_owned(),
        url: "https://images.example.com/a.cosi?sig=1".to_owned(),
        sha384: "ab".repeat(48),
    }
}

fn in_flight(n: u32, work: Work) -> InFlight {
    let mut operation = InFlight::new(request(n, work), "202606.15.0".to_owned(), at(0));
    operation.starts = 2;
    operation.offer = Some(offer());
    operation.arming = Some(Arming { boot_marker: "boot-1".to_owned() });
    operation
}

fn status(n: u32, phase: Phase, code: Code) -> Status {
    Status::begin(&request(n, Work::Stage(update())), phase, Some("202606.15.0".to_owned()), at(0))
        .finish(code, "why", at(60))
}

/// A finalize whose commit failed, and a rejected request that is not published yet.
fn completed() -> Vec<Completed> {
    let location = Some(Location { path: "src/engine.rs".to_owned(), line: 7 });
    let error = TridentError {
        kind: "servicing".to_owned(),
        subkind: "ab-update-reboot-check".to_owned(),
        location,
    };
    let failed = status(2, Phase::Commit, Code::TargetBootFailed).with_trident_error(Some(error));
    let mut committed = Completed::new(status(2, Phase::Finalize, Code::Success));
    committed.published = true;
    committed.commit = Some(CommitRecord { status: failed, announced: true, published: false });
    vec![committed, Completed::new(status(3, Phase::Finalize, Code::NotStaged))]
}

fn owed_events() -> Vec<OwedEvent> {
    let kinds = [
        EventKind::DownloadStarted,
        EventKind::DownloadFinished,
        EventKind::Installed,
        EventKind::Complete { previous_version: "202606.15.0".to_owned() },
        EventKind::Failed,
    ];
    let owed = |event| OwedEvent {
        operation_id: id(2),
        node_update_id: id(1),
        operation: Phase::Commit,
        target_version: update().target_version,
        server: update().server,
        app_id: update().app_id,
        track: update().track,
        version: "202606.15.0".to_owned(),
        event,
    };
    kinds.map(owed).to_vec()
}

/// What the file of format 1 says.
fn format_1() -> State {
    let rollback = in_flight(5, Work::Rollback);
    let mut state = State::default();
    state.operation = Some(in_flight(4, Work::Finalize(update())));
    state.staged = Some(Staged::new(id(1), update(), Some(offer())));
    state.pending_commit = Some(PendingCommit::new(&rollback, "boot-1".to_owned(), 900));
    state.completed = completed();
    state.refused = Some(Refused {
        digest: "00ff".to_owned(),
        status: Status::of(Id::nil(), Id::nil(), Phase::Stage, at(0)).finish(
            Code::InvalidRequest,
            "why",
            at(0),
        ),
        published: true,
    });
    state.owed_events = owed_events();
    state
}

/// A file of a format that has no entry here fails the test.
fn expected(name: &str) -> State {
    match name {
        "state-1.json" => format_1(),
        other => panic!("what does {other} say?"),
    }
}

/// Every file was written by an agent of this version; what this program makes bears its own.
fn text_of(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    text.replace(
        "\"tridentVersion\": \"0.1.0\"",
        &format!("\"tridentVersion\": \"{AGENT_VERSION}\""),
    )
}

#[test]
fn every_format_is_read_as_it_was_meant() {
    let mut read = 0;
    for entry in std::fs::read_dir(golden()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.starts_with("state-") {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let copy = directory.path().join("state.json");
        replace(&copy, text_of(&path).as_bytes()).unwrap();
        let mut state = Store::new(&copy, MACHINE_ID).read().unwrap();
        assert!(state.machine.take().is_some(), "{name} is bound to its machine");
        assert_eq!(state, expected(name), "{name}");
        read += 1;
    }
    assert!(read > 0);
}

/// The newest golden file is what this program writes: a change of the format needs a new one.
#[test]
fn the_newest_format_is_the_one_that_is_written() {
    let text = text_of(&golden().join("state-1.json"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.json");
    Store::new(&path, MACHINE_ID).update(|state| *state = format_1()).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), text.trim());
}
