//! A daemon that does as it was told.

use std::collections::VecDeque;
use std::error::Error as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use trident_acl_agent::trident::{Error, Image, Trident};
use trident_lab::wire::v1::commit_service_server::{CommitService, CommitServiceServer};
use trident_lab::wire::v1::rollback_service_server::{RollbackService, RollbackServiceServer};
use trident_lab::wire::v1::servicing_response::Response as Part;
use trident_lab::wire::v1::update_service_server::{UpdateService, UpdateServiceServer};
use trident_lab::wire::v1::version_service_server::{VersionService, VersionServiceServer};
use trident_lab::wire::v1::{
    CommitRequest, Completed, FinalizeUpdateRequest, Log, RollbackFinalizeRequest, RollbackRequest,
    RollbackStageRequest, ServicingResponse, StageUpdateRequest, Started, TridentError,
    UpdateRequest, VersionRequest, VersionResponse,
};
use trident_lab::wire::v1preview::status_service_server::{StatusService, StatusServiceServer};
use trident_lab::wire::v1preview::{
    GetActiveVolumeRequest, GetActiveVolumeResponse, GetServicingStateRequest,
    GetServicingStateResponse,
};

/// Long enough for a busy machine; no test waits for it unless it fails.
pub(crate) const AMPLE: Duration = Duration::from_secs(60);
/// Waited out by the tests of deadlines.
pub(crate) const SHORT: Duration = Duration::from_millis(800);

pub(crate) type Item = Result<ServicingResponse, Status>;
pub(crate) type Items = Pin<Box<dyn Stream<Item = Item> + Send>>;

/// What the daemon does with one servicing call.
pub(crate) enum Script {
    /// Ends it with a status at once.
    Refuse(Status),
    /// Answers with these, then ends the answer in good order.
    Answer(Vec<Item>),
    /// Answers with these, then says no more.
    Hang(Vec<Item>),
}

/// A daemon that does as it was told, and remembers what it was asked.
#[derive(Clone, Default)]
pub(crate) struct Daemon {
    pub(crate) scripts: Arc<Mutex<VecDeque<Script>>>,
    pub(crate) calls: Arc<Mutex<Vec<String>>>,
    /// Its servicing state, as a number.
    pub(crate) state: Arc<Mutex<i32>>,
    /// `:authority` and `:path` of every call.
    pub(crate) asked: Arc<Mutex<Vec<(String, String)>>>,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Daemon {
    pub(crate) fn scripted(scripts: impl IntoIterator<Item = Script>) -> Daemon {
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

    pub(crate) fn calls(&self) -> Vec<String> {
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
        Ok(Response::new(GetServicingStateResponse { state: *locked(&self.state) }))
    }

    async fn get_active_volume(
        &self,
        _: Request<GetActiveVolumeRequest>,
    ) -> Result<Response<GetActiveVolumeResponse>, Status> {
        Err(Status::internal("nobody asks this"))
    }
}

/// A socket, and the runtime of its own that a daemon behind it lives and dies with.
pub(crate) struct Socket {
    directory: TempDir,
    runtime: Option<Runtime>,
}

impl Socket {
    pub(crate) fn new() -> Socket {
        Socket { directory: TempDir::new().expect("a directory"), runtime: None }
    }

    pub(crate) fn with(daemon: &Daemon, status_service: bool) -> Socket {
        let mut socket = Socket::new();
        socket.start(daemon, status_service);
        socket
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("trident.sock")
    }

    pub(crate) fn trident(&self) -> Trident {
        Trident::connect(&format!("unix://{}", self.path().display())).expect("an address")
    }

    pub(crate) fn start(&mut self, daemon: &Daemon, status_service: bool) {
        let runtime = Runtime::new().expect("a runtime");
        let guard = runtime.enter();
        let listener = tokio::net::UnixListener::bind(self.path()).expect("a socket");
        drop(guard);
        let asked = daemon.asked.clone();
        let note = move |request: tonic::codegen::http::Request<tonic::body::Body>| {
            let authority = request.uri().authority().map(ToString::to_string);
            locked(&asked).push((authority.unwrap_or_default(), request.uri().path().to_owned()));
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
    pub(crate) fn kill(&mut self) {
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

pub(crate) fn part(part: Part) -> Item {
    Ok(ServicingResponse { timestamp: None, response: Some(part) })
}

pub(crate) fn started() -> Item {
    part(Part::Started(Started {}))
}

pub(crate) fn said(level: i32, message: &str) -> Item {
    part(Part::Log(Log { level, message: message.into(), ..Log::default() }))
}

pub(crate) fn done(kind: i32, reboot_status: i32) -> Item {
    let completed =
        Completed { status: 1, reboot_status, servicing_kind: Some(kind), ..Completed::default() };
    part(Part::Completed(completed))
}

pub(crate) fn success() -> Script {
    Script::Answer(vec![started(), said(3, "working"), done(3, 2)])
}

pub(crate) fn busy() -> Script {
    Script::Refuse(Status::unavailable("busy"))
}

pub(crate) fn failed(error: Option<TridentError>) -> Script {
    let completed = Completed { status: 2, error, ..Completed::default() };
    Script::Answer(vec![started(), part(Part::Completed(completed))])
}

pub(crate) fn image() -> Image {
    Image { url: "https://u:SECRET@h/i.cosi?sig=SECRET".into(), sha384: "ab".into() }
}

pub(crate) fn chain(error: &Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(" <- {error} {error:?}"));
        source = error.source();
    }
    text
}
