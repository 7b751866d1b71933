//! A daemon that is away, busy, slow or dead.

use std::time::Instant;

use tonic::Status;
use trident_acl_agent::trident::{Error, Refusal, Retry};

use crate::daemon::{
    AMPLE, Daemon, SHORT, Script, Socket, busy, chain, image, locked, said, started, success,
};
use crate::heard::{Heard, OURS, THEIRS};

#[tokio::test]
async fn busy_is_waited_out_and_said_once() {
    let mut log = Heard::listen();
    let late = Script::Answer(vec![Err(Status::unavailable("busy"))]);
    let daemon = Daemon::scripted([busy(), late, success()]);
    let socket = Socket::with(&daemon, false);
    socket.trident().commit(AMPLE).await.expect("a success");
    assert_eq!(daemon.calls().len(), 3);
    let said = log.so_far(OURS);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].field("message").contains("waiting for tridentd"), "{said:?}");
    assert!(said[0].field("reason").contains("busy"), "{said:?}");
    assert!(said[1].field("message").contains("no longer waiting"), "{said:?}");
    assert_eq!(said[1].field("tries"), "3");
}

/// What the daemon works on may be this very call: its caller is to look before it asks again.
#[tokio::test]
async fn a_boot_is_not_armed_behind_another_call() {
    for rollback in [false, true] {
        let late = Script::Answer(vec![Err(Status::unavailable("busy"))]);
        for busy in [busy(), late] {
            let daemon = Daemon::scripted([busy]);
            let socket = Socket::with(&daemon, false);
            let trident = socket.trident();
            let served = match rollback {
                true => trident.rollback_finalize(AMPLE).await,
                false => trident.finalize(AMPLE).await,
            };
            let error = served.expect_err("it is busy");
            assert!(error.is_busy() && error.retry() == Retry::Again, "{error:?}");
            assert_eq!(daemon.calls().len(), 1);
        }
    }
}

#[tokio::test]
async fn a_missing_socket_is_waited_for() {
    let mut log = Heard::listen();
    let daemon = Daemon::scripted([success()]);
    let mut socket = Socket::new();
    let trident = socket.trident();
    let (served, ()) = tokio::join!(trident.commit(AMPLE), async {
        log.next(OURS).await;
        socket.start(&daemon, false);
    });
    served.expect("a success");
    assert_eq!(daemon.calls().len(), 1);
}

#[tokio::test]
async fn a_daemon_that_stays_away_is_unreachable() {
    let socket = Socket::new();
    drop(std::os::unix::net::UnixListener::bind(socket.path()).expect("a socket"));
    let error = socket.trident().commit(SHORT).await.expect_err("nobody listens");
    let not_listening =
        matches!(&error, Error::Unreachable { source: Refusal::NotListening(_), .. });
    assert!(not_listening, "{error:?}");
    assert!(chain(&error).contains("refused"), "{}", chain(&error));
    assert_eq!(error.retry(), Retry::Again);
}

#[tokio::test]
async fn a_daemon_that_stays_busy_is_unreachable() {
    let daemon = Daemon::scripted((0..100).map(|_| busy()));
    let socket = Socket::with(&daemon, false);
    let error = socket.trident().commit(SHORT).await.expect_err("always busy");
    let Error::Unreachable { tries, source: Refusal::Busy(text), .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(locked(&daemon.calls).len(), usize::try_from(*tries).expect("few"));
    assert!(*tries >= 2 && text == "busy", "{error:?}");
    assert_eq!(error.retry(), Retry::Again);
}

#[tokio::test]
async fn a_daemon_that_dies_leaves_the_call_open() {
    let mut log = Heard::listen();
    let daemon = Daemon::scripted([Script::Hang(vec![started(), said(3, "working")])]);
    let mut socket = Socket::with(&daemon, false);
    let trident = socket.trident();
    let (served, ()) = tokio::join!(trident.finalize(AMPLE), async {
        log.next(THEIRS).await;
        socket.kill();
    });
    let error = served.expect_err("the daemon is dead");
    assert!(matches!(error, Error::Broken { started: true, .. }), "{error:?}");
    assert_eq!(error.retry(), Retry::FindOut);
    assert_eq!(daemon.calls().len(), 1);
}

#[tokio::test]
async fn a_peer_that_does_not_speak_http_2_is_an_error() {
    let socket = Socket::new();
    let listener = tokio::net::UnixListener::bind(socket.path()).expect("a socket");
    let peer = async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a client");
            stream.writable().await.expect("open");
            // The client may have left already.
            let _ = stream.try_write(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    };
    let trident = socket.trident();
    let error = tokio::select! {
        // Never ends.
        () = peer => unreachable!("the peer goes on"),
        answer = trident.commit(SHORT) => answer.expect_err("no daemon"),
    };
    assert_ne!(error.retry(), Retry::No, "{error:?}");
}

/// Each of the five servicing calls has the limit that it was given, waiting (where it waits) and reading
/// included.
#[tokio::test]
async fn a_call_that_does_not_end_times_out() {
    let silent = || Script::Hang(vec![]);
    let begun = || Script::Hang(vec![started()]);
    let working = || Script::Hang(vec![started(), said(3, "working")]);
    for (name, script) in [
        ("stage", working()),
        ("finalize", begun()),
        ("rollback_stage", silent()),
        ("rollback_finalize", working()),
        ("commit", silent()),
        ("commit", begun()),
    ] {
        let waits = !name.contains("finalize");
        let scripts = waits.then(busy).into_iter().chain([script]);
        let daemon = Daemon::scripted(scripts);
        let socket = Socket::with(&daemon, false);
        let (trident, image, begun) = (socket.trident(), image(), Instant::now());
        let served = match name {
            "stage" => trident.stage(&image, SHORT).await,
            "finalize" => trident.finalize(SHORT).await,
            "rollback_stage" => trident.rollback_stage(SHORT).await,
            "rollback_finalize" => trident.rollback_finalize(SHORT).await,
            _ => trident.commit(SHORT).await,
        };
        let error = served.expect_err(name);
        assert!(matches!(error, Error::TimedOut { after: SHORT, .. }), "{name}: {error:?}");
        assert_eq!(error.retry(), Retry::FindOut, "{name}");
        assert!(begun.elapsed() >= SHORT && begun.elapsed() < AMPLE, "{name}");
        assert_eq!(daemon.calls().len(), 1 + usize::from(waits), "{name}");
    }
}
