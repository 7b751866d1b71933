use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tonic::Code;
use trident_lab::trident::{Method, Script, Tridentd};

use crate::program::{command, one_line, run, validate};

const SOCKET: &str = "TRIDENT_ACL_AGENT_TRIDENT_SOCKET";

async fn probe(socket: &Path) -> (Option<i32>, String) {
    validate("tridentd", &[("TRIDENT_SOCKET", &format!("unix://{}", socket.display()))]).await
}

async fn fails(socket: &Path, what: &str, words: &[&str]) {
    let (code, line) = probe(socket).await;
    assert_failed(what, code, &line, words);
}

fn assert_failed(what: &str, code: Option<i32>, line: &str, words: &[&str]) {
    assert_eq!(code, Some(1), "{what}: {line}");
    for word in words.iter().chain(&["tridentd cannot be used; "]) {
        assert!(line.contains(word), "{what}: {word:?} is not in {line:?}");
    }
}

fn place() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let socket = directory.path().join("trident.sock");
    (directory, socket)
}

fn daemon(directory: &TempDir, socket: &Path) -> Tridentd {
    let state = directory.path().join("state");
    fs::create_dir(&state).unwrap();
    Tridentd::start_new(&state, socket, "1.0.0").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_answers_is_good_and_asked_nothing_else() {
    let (directory, socket) = place();
    let daemon = daemon(&directory, &socket);
    let (code, line) = probe(&socket).await;
    assert_eq!(code, Some(0), "{line}");
    assert!(line.starts_with("tridentd: version \""), "{line}");
    let calls: Vec<_> = daemon.calls().iter().map(|call| call.method).collect();
    assert_eq!(calls, [Method::Version]);
    assert!(daemon.strangers().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_nobody_listens_on_is_named() {
    let (directory, socket) = place();
    let listening = "check that tridentd.socket is active";
    fails(&socket, "no socket", &[listening, SOCKET, "No such file"]).await;
    let nowhere = directory.path().join("missing/trident.sock");
    fails(&nowhere, "no directory", &[listening, "No such file"]).await;
    drop(UnixListener::bind(&socket).unwrap());
    fails(&socket, "left over", &[listening, "refused"]).await;
    let file = directory.path().join("file");
    fs::write(&file, "no socket").unwrap();
    fails(&file, "not a socket", &[listening, "refused"]).await;
    fails(directory.path(), "a directory", &[listening]).await;
    // Nothing can ever listen there: a malformed setting.
    let (code, line) = probe(&directory.path().join("x".repeat(200))).await;
    assert_eq!(code, Some(78), "longer than any socket's path: {line}");
    assert!(line.contains(SOCKET) && line.contains("at most 107 bytes"), "{line}");
}

/// Root may do anything: the program runs as nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_one_may_not_use_is_named() {
    let (directory, socket) = place();
    let _daemon = daemon(&directory, &socket);
    let program = directory.path().join("agent");
    fs::copy(crate::program::path(), &program).unwrap();
    for path in [directory.path(), program.as_path()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let setting = format!("unix://{}", socket.display());
    let mut command = tokio::process::Command::new(&program);
    command.args(["--validate-connection", "tridentd", "--log-level", "error"]);
    command.env_clear().env(SOCKET, setting).current_dir("/").uid(65534).gid(65534);
    let (code, line) = one_line(run(&mut command).await);
    assert_failed("not root", code, &line, &["that you are root", "ermission denied"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_says_nothing_is_given_up() {
    let (_directory, socket) = place();
    let _silent = UnixListener::bind(&socket).unwrap();
    fails(&socket, "accepts only", &["says nothing", "check its journal", "within 10s"]).await;
}

/// Says this to every client, and then nothing; without anything to say it hangs up.
async fn speak(listener: tokio::net::UnixListener, speech: &'static [u8]) {
    let mut clients = vec![];
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        // The client may have left.
        let _ = stream.write_all(speech).await;
        clients.extend((!speech.is_empty()).then_some(stream));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_protocol_is_named() {
    for (speech, words) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &["does not speak gRPC", SOCKET][..]),
        (b"220 mail.example ESMTP ready, say hello\r\n", &["does not speak gRPC", SOCKET]),
        (&[0; 64], &["does not speak gRPC", SOCKET]),
        (b"", &[SOCKET]),
    ] {
        let (_directory, socket) = place();
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let speaking = tokio::spawn(speak(listener, speech));
        fails(&socket, "another protocol", words).await;
        speaking.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_refuses_is_named() {
    let (directory, socket) = place();
    let daemon = daemon(&directory, &socket);
    for (code, words) in [
        (Code::Unimplemented, ["too old for this agent", "update it"]),
        (Code::Unavailable, ["starting or at work", "again in a while"]),
        (Code::ResourceExhausted, ["check its journal", "ResourceExhausted"]),
        (Code::PermissionDenied, ["check its journal", "PermissionDenied"]),
        (Code::Internal, ["check its journal", "Internal"]),
    ] {
        let refusal = Script::new().refuse(code, "see https://h/?sig=SECRET\nand more");
        daemon.next(Method::Version, refusal);
        fails(&socket, words[0], &words).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_none_is_named() {
    let long = format!("unix:///{}", "x".repeat(200));
    let relative = "unix://run/t.sock";
    for address in ["https://u:SECRET@h/SECRET", "/run/trident.sock", relative, "unix:///", &long] {
        let arguments = ["--validate-connection", "tridentd", "--log-level", "error"];
        let mut command = command(&arguments, &[("TRIDENT_SOCKET", address)]);
        let (code, line) = one_line(run(&mut command).await);
        assert!(matches!(code, Some(1 | 78)), "{address}: {line}");
        assert!(line.contains(SOCKET), "{address}: {line}");
    }
}
