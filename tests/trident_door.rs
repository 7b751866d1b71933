//! The door to tridentd, against a scripted server on a real unix socket.

use std::collections::VecDeque;
use std::error::Error as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, SubscriberExt};
use trident_acl_agent::trident::{
    Error, Image, RebootStatus, Refusal, Retry, Served, ServicingKind, ServicingState, Trident,
};
use trident_lab::wire::v1::commit_service_server::{CommitService, CommitServiceServer};
use trident_lab::wire::v1::rollback_service_server::{RollbackService, RollbackServiceServer};
use trident_lab::wire::v1::servicing_response::Response as Part;
use trident_lab::wire::v1::update_service_server::{UpdateService, UpdateServiceServer};
use trident_lab::wire::v1::version_service_server::{VersionService, VersionServiceServer};
use trident_lab::wire::v1::{
    CommitRequest, Completed, FileLocation, FinalizeUpdateRequest, Log, RollbackFinalizeRequest,
    RollbackRequest, RollbackStageRequest, ServicingResponse, StageUpdateRequest, Started,
    TridentError, UpdateRequest, VersionRequest, VersionResponse,
};
use trident_lab::wire::v1preview::status_service_server::{StatusService, StatusServiceServer};
use trident_lab::wire::v1preview::{
    GetActiveVolumeRequest, GetActiveVolumeResponse, GetServicingStateRequest,
    GetServicingStateResponse,
};

/// Long enough for a busy machine; no test waits for it unless it fails.
const AMPLE: Duration = Duration::from_secs(60);
/// Waited out by the tests of deadlines.
const SHORT: Duration = Duration::from_millis(800);

type Item = Result<ServicingResponse, Status>;
type Items = Pin<Box<dyn Stream<Item = Item> + Send>>;

/// What the daemon does with one servicing call.
enum Script {
    /// Ends it with a status at once.
    Refuse(Status),
    /// Answers with these, then ends the answer in good order.
    Answer(Vec<Item>),
    /// Answers with these, then says no more.
    Hang(Vec<Item>),
}

/// A daemon that does as it was told, and remembers what it was asked.
#[derive(Clone, Default)]
struct Daemon {
    scripts: Arc<Mutex<VecDeque<Script>>>,
    calls: Arc<Mutex<Vec<String>>>,
    authorities: Arc<Mutex<Vec<String>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Daemon {
    fn scripted(scripts: impl IntoIterator<Item = Script>) -> Daemon {
        let daemon = Daemon::default();
        locked(&daemon.scripts).extend(scripts);
        daemon
    }

    fn serve(&self, call: &str, request: &dyn std::fmt::Debug) -> Result<Response<Items>, Status> {
        locked(&self.calls).push(format!("{call} {request:?}"));
        match locked(&self.scripts).pop_front() {
            None => Err(Status::internal("no script for this call")),
            Some(Script::Refuse(status)) => Err(status),
            Some(Script::Answer(items)) => Ok(Response::new(stream::iter(items).boxed())),
            Some(Script::Hang(items)) => {
                Ok(Response::new(stream::iter(items).chain(stream::pending()).boxed()))
            }
        }
    }

    fn calls(&self) -> Vec<String> {
        assert!(locked(&self.scripts).is_empty(), "the client should have called again");
        locked(&self.calls).clone()
    }
}

macro_rules! servicing {
    ($service:ident { $($method:ident($request:ty) -> $stream:ident;)* }) => {
        #[tonic::async_trait]
        impl $service for Daemon {
            $(
                type $stream = Items;
                async fn $method(&self, request: Request<$request>) -> Result<Response<Items>, Status> {
                    self.serve(stringify!($method), request.get_ref())
                }
            )*
        }
    };
}

servicing!(UpdateService {
    update(UpdateRequest) -> UpdateStream;
    update_stage(StageUpdateRequest) -> UpdateStageStream;
    update_finalize(FinalizeUpdateRequest) -> UpdateFinalizeStream;
});
servicing!(RollbackService {
    rollback(RollbackRequest) -> RollbackStream;
    rollback_stage(RollbackStageRequest) -> RollbackStageStream;
    rollback_finalize(RollbackFinalizeRequest) -> RollbackFinalizeStream;
});
servicing!(CommitService {
    commit(CommitRequest) -> CommitStream;
});

#[tonic::async_trait]
impl VersionService for Daemon {
    async fn version(
        &self,
        _: Request<VersionRequest>,
    ) -> Result<Response<VersionResponse>, Status> {
        Ok(Response::new(VersionResponse { version: "0.22.0".into() }))
    }
}

#[tonic::async_trait]
impl StatusService for Daemon {
    async fn get_servicing_state(
        &self,
        _: Request<GetServicingStateRequest>,
    ) -> Result<Response<GetServicingStateResponse>, Status> {
        Ok(Response::new(GetServicingStateResponse { state: 8 }))
    }

    async fn get_active_volume(
        &self,
        _: Request<GetActiveVolumeRequest>,
    ) -> Result<Response<GetActiveVolumeResponse>, Status> {
        Err(Status::internal("nobody asks this"))
    }
}

/// A socket, and the runtime of its own that a daemon behind it lives and dies with.
struct Socket {
    directory: TempDir,
    runtime: Option<Runtime>,
}

impl Socket {
    fn new() -> Socket {
        Socket { directory: TempDir::new().expect("a directory"), runtime: None }
    }

    fn with(daemon: &Daemon, status_service: bool) -> Socket {
        let mut socket = Socket::new();
        socket.start(daemon, status_service);
        socket
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("trident.sock")
    }

    fn trident(&self) -> Trident {
        Trident::connect(&format!("unix://{}", self.path().display())).expect("an address")
    }

    fn start(&mut self, daemon: &Daemon, status_service: bool) {
        let runtime = Runtime::new().expect("a runtime");
        let guard = runtime.enter();
        let listener = tokio::net::UnixListener::bind(self.path()).expect("a socket");
        drop(guard);
        let authorities = daemon.authorities.clone();
        let note = move |request: tonic::codegen::http::Request<tonic::body::Body>| {
            let authority = request.uri().authority().map(ToString::to_string);
            locked(&authorities).push(authority.unwrap_or_default());
            request
        };
        let status = status_service.then(|| StatusServiceServer::new(daemon.clone()));
        let server = Server::builder()
            .layer(tower::util::MapRequestLayer::new(note))
            .add_service(UpdateServiceServer::new(daemon.clone()))
            .add_service(RollbackServiceServer::new(daemon.clone()))
            .add_service(CommitServiceServer::new(daemon.clone()))
            .add_service(VersionServiceServer::new(daemon.clone()))
            .add_optional_service(status);
        runtime.spawn(server.serve_with_incoming(UnixListenerStream::new(listener)));
        self.runtime = Some(runtime);
    }

    /// Like SIGKILL: every connection breaks.
    fn kill(&mut self) {
        self.runtime.take().expect("a running daemon").shutdown_background();
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// One log record of ours.
#[derive(Debug, Default)]
struct Record {
    level: String,
    target: String,
    fields: Vec<(String, String)>,
}

impl Record {
    fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str())
    }
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.fields.push((field.name().to_owned(), format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name().to_owned(), value.to_owned()));
    }
}

struct Tell(UnboundedSender<Record>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Tell {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let (level, target) = (event.metadata().level(), event.metadata().target());
        let mut record =
            Record { level: level.to_string(), target: target.to_owned(), ..Record::default() };
        event.record(&mut record);
        // The test may have heard enough.
        let _ = self.0.send(record);
    }
}

/// What this thread logs from now on; target by prefix.
struct Heard {
    records: UnboundedReceiver<Record>,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Heard {
    fn listen() -> Heard {
        let (sender, records) = unbounded_channel();
        let subscriber = tracing_subscriber::registry().with(Tell(sender));
        Heard { records, _guard: tracing::subscriber::set_default(subscriber) }
    }

    async fn next(&mut self, target: &str) -> Record {
        loop {
            let record = self.records.recv().await.expect("the log goes on");
            if record.target.starts_with(target) {
                return record;
            }
        }
    }

    fn so_far(&mut self, target: &str) -> Vec<Record> {
        let mut records = Vec::new();
        while let Ok(record) = self.records.try_recv() {
            records.push(record);
        }
        records.retain(|record| record.target.starts_with(target));
        records
    }
}

const OURS: &str = "trident_acl_agent::trident";
const THEIRS: &str = "tridentd";

fn part(part: Part) -> Item {
    Ok(ServicingResponse { timestamp: None, response: Some(part) })
}

fn started() -> Item {
    part(Part::Started(Started {}))
}

fn said(level: i32, message: &str) -> Item {
    part(Part::Log(Log { level, message: message.into(), ..Log::default() }))
}

fn done(kind: i32, reboot_status: i32) -> Item {
    let completed =
        Completed { status: 1, reboot_status, servicing_kind: Some(kind), ..Completed::default() };
    part(Part::Completed(completed))
}

fn success() -> Script {
    Script::Answer(vec![started(), said(3, "working"), done(3, 2)])
}

fn busy() -> Script {
    Script::Refuse(Status::unavailable("busy"))
}

fn failed(error: Option<TridentError>) -> Script {
    let completed = Completed { status: 2, error, ..Completed::default() };
    Script::Answer(vec![started(), part(Part::Completed(completed))])
}

fn image() -> Image {
    Image { url: "https://u:SECRET@h/i.cosi?sig=SECRET".into(), sha384: "ab".into() }
}

fn chain(error: &Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(" <- {error} {error:?}"));
        source = error.source();
    }
    text
}

#[tokio::test]
async fn a_stage_hands_over_the_image_under_the_authority_localhost() {
    let daemon = Daemon::scripted([success()]);
    let socket = Socket::with(&daemon, false);
    let served = socket.trident().stage(&image(), AMPLE).await.expect("a success");
    let expected = Served { kind: ServicingKind::AbUpdate, reboot: RebootStatus::Required };
    assert_eq!(served, expected);
    let config =
        r#"{\"image\":{\"sha384\":\"ab\",\"url\":\"https://u:SECRET@h/i.cosi?sig=SECRET\"}}"#;
    let calls = daemon.calls();
    assert!(calls[0].starts_with("update_stage") && calls[0].contains(config), "{calls:?}");
    assert_eq!(*locked(&daemon.authorities), ["localhost"]);
}

#[tokio::test]
async fn the_caller_handles_every_reboot_and_a_rollback_is_ab() {
    let daemon = Daemon::scripted([success(), success(), success(), success()]);
    let socket = Socket::with(&daemon, false);
    let trident = socket.trident();
    trident.finalize(AMPLE).await.expect("a success");
    trident.rollback_stage(AMPLE).await.expect("a success");
    trident.rollback_finalize(AMPLE).await.expect("a success");
    trident.commit(AMPLE).await.expect("a success");
    let calls = daemon.calls();
    for (call, name, content) in [
        (&calls[0], "update_finalize", "CallerHandlesReboot"),
        (&calls[1], "rollback_stage", "AbRollbackRequested"),
        (&calls[2], "rollback_finalize", "CallerHandlesReboot"),
        (&calls[3], "commit", "CallerHandlesReboot"),
    ] {
        assert!(call.starts_with(name) && call.contains(content), "{call}");
    }
}

#[tokio::test]
async fn a_success_without_any_work_is_told_apart() {
    let absent = Completed { status: 1, ..Completed::default() };
    let daemon = Daemon::scripted([
        Script::Answer(vec![done(1, 1)]),
        Script::Answer(vec![part(Part::Completed(absent))]),
        Script::Answer(vec![done(77, 78)]),
    ]);
    let socket = Socket::with(&daemon, false);
    for (kind, reboot) in [
        (ServicingKind::NoneRequired, RebootStatus::NotRequired),
        (ServicingKind::Absent, RebootStatus::Absent),
        (ServicingKind::Unknown(77), RebootStatus::Unknown(78)),
    ] {
        let served = socket.trident().commit(AMPLE).await.expect("a success");
        assert_eq!(served, Served { kind, reboot });
    }
}

#[tokio::test]
async fn busy_is_waited_out_and_said_once() {
    let mut log = Heard::listen();
    let late = Script::Answer(vec![Err(Status::unavailable("busy"))]);
    let daemon = Daemon::scripted([busy(), late, success()]);
    let socket = Socket::with(&daemon, false);
    socket.trident().finalize(AMPLE).await.expect("a success");
    assert_eq!(daemon.calls().len(), 3);
    let said = log.so_far(OURS);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].field("message").contains("waiting for tridentd"), "{said:?}");
    assert!(said[0].field("reason").contains("busy"), "{said:?}");
    assert!(said[1].field("message").contains("no longer waiting"), "{said:?}");
    assert_eq!(said[1].field("tries"), "3");
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

#[tokio::test]
async fn an_answer_without_a_result_leaves_the_call_open() {
    for items in [vec![], vec![started(), said(3, "bye")]] {
        let daemon = Daemon::scripted([Script::Answer(items)]);
        let socket = Socket::with(&daemon, false);
        let error = socket.trident().commit(AMPLE).await.expect_err("no result");
        assert!(matches!(error, Error::NoAnswer { .. }), "{error:?}");
        assert_eq!(error.retry(), Retry::FindOut);
    }
}

#[tokio::test]
async fn other_statuses_are_not_asked_again_by_the_door() {
    let text = "bad https://h/i?sig=SECRET";
    let late = |status| Script::Answer(vec![started(), Err(status)]);
    for (script, code, retry) in [
        (Script::Refuse(Status::invalid_argument(text)), Code::InvalidArgument, Retry::No),
        (Script::Refuse(Status::unimplemented(text)), Code::Unimplemented, Retry::No),
        (late(Status::internal(text)), Code::Internal, Retry::FindOut),
        (late(Status::unavailable(text)), Code::Unavailable, Retry::FindOut),
    ] {
        let daemon = Daemon::scripted([script]);
        let socket = Socket::with(&daemon, false);
        let error = socket.trident().commit(AMPLE).await.expect_err("a status");
        assert!(matches!(&error, Error::Status { code: found, .. } if *found == code), "{error:?}");
        assert_eq!(error.retry(), retry);
        assert!(!chain(&error).contains("SECRET"), "{}", chain(&error));
        assert_eq!(daemon.calls().len(), 1);
    }
}

#[tokio::test]
async fn a_call_that_does_not_end_times_out() {
    for items in [vec![], vec![started()]] {
        let daemon = Daemon::scripted([Script::Hang(items)]);
        let socket = Socket::with(&daemon, false);
        let error = socket.trident().commit(SHORT).await.expect_err("no end");
        assert!(matches!(error, Error::TimedOut { after: SHORT, .. }), "{error:?}");
        assert_eq!(error.retry(), Retry::FindOut);
    }
}

#[tokio::test]
async fn a_failure_is_tridents_own_account() {
    let structured = TridentError {
        kind: 6,
        subkind: "ab-update-reboot-check".into(),
        message: "cannot read https://h/i?sig=SECRET".into(),
        error_message: String::new(),
        location: Some(FileLocation { path: "a.rs".into(), line: 3 }),
    };
    let daemon = Daemon::scripted([failed(Some(structured)), failed(None)]);
    let socket = Socket::with(&daemon, false);
    let error = socket.trident().stage(&image(), AMPLE).await.expect_err("a failure");
    assert!(!chain(&error).contains("SECRET"), "{}", chain(&error));
    assert_eq!(error.retry(), Retry::No);
    let Error::Failed(failure) = error else { panic!("{error:?}") };
    assert_eq!(
        (failure.kind.as_str(), failure.subkind.as_str()),
        ("SERVICING_ERROR", "ab-update-reboot-check")
    );
    assert_eq!(failure.location.map(|at| (at.path, at.line)), Some(("a.rs".into(), 3)));
    let error = socket.trident().commit(AMPLE).await.expect_err("a failure");
    let Error::Failed(failure) = error else { panic!("{error:?}") };
    assert_eq!((failure.kind.as_str(), failure.subkind.as_str()), ("unknown", "unknown"));
}

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

#[tokio::test]
async fn the_servicing_state_is_asked_where_it_is_offered() {
    let daemon = Daemon::default();
    let state = Socket::with(&daemon, true).trident().servicing_state().await;
    assert_eq!(state.expect("an answer"), Some(ServicingState::UpdateAbFinalized));
    let state = Socket::with(&daemon, false).trident().servicing_state().await;
    assert_eq!(state.expect("an answer"), None);
}

#[tokio::test]
async fn the_version_is_asked_once() {
    let version = Socket::with(&Daemon::default(), false).trident().version().await;
    assert_eq!(version.expect("an answer"), "0.22.0");
    let error = Socket::new().trident().version().await.expect_err("nobody listens");
    assert!(matches!(error, Error::Unreachable { tries: 1, .. }), "{error:?}");
    assert_eq!(error.retry(), Retry::Again);
}

#[test]
fn a_call_may_run_on_any_thread() {
    fn sendable<T: Send>(_: T) {}
    let trident = Socket::new().trident();
    let image = image();
    sendable(trident.stage(&image, AMPLE));
    sendable(trident.commit(AMPLE));
    sendable(trident.servicing_state());
}
