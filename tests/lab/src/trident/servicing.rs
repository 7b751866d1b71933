//! One servicing call, from its start to its end.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::authority::Authority;
use super::config::{self, Wanted};
use super::proto::v1::servicing_response::Response as Part;
use super::proto::v1::{
    Completed, ManualRollbackKind, RebootHandling, RebootManagement, RebootStatus, ServicingKind,
    ServicingResponse, Started, StatusCode, TridentErrorKind,
};
use super::record::{Method, Outcome};
use super::script::{Ending, Fault, Script};
use super::shared::Shared;
use super::world::{Answer, Image};

/// What a servicing call streams.
pub(super) type Stream = ReceiverStream<Result<ServicingResponse, Status>>;
type Sender = mpsc::Sender<Result<ServicingResponse, Status>>;

/// A servicing call, read.
#[derive(Clone, Debug)]
pub(super) enum Job {
    Stage(Result<Wanted, Fault>),
    FinalizeUpdate,
    StageRollback(ManualRollbackKind),
    FinalizeRollback,
    Commit,
    /// The first, and if it staged something the second.
    Both(Box<Job>, Box<Job>),
}

/// What the caller asked, and who it was.
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) job: Job,
    pub(super) reboot: RebootHandling,
    pub(super) summary: Value,
}

/// The reboot handling of a request, and its name for the record.
pub(super) fn handling(reboot: Option<&RebootManagement>) -> RebootHandling {
    reboot.map_or(RebootHandling::Unspecified, RebootManagement::handling)
}

/// The authority that the check let in.
pub(super) fn authority<T>(request: &Request<T>) -> String {
    request.extensions().get::<Authority>().map(|found| found.0.clone()).unwrap_or_default()
}

/// Begins the call in a task of the daemon and hands out its stream.
pub(super) fn serve(
    shared: &Arc<Shared>,
    call: Call,
    authority: String,
) -> Result<Response<Stream>, Status> {
    let number = shared.note(call.method, call.summary.clone(), authority);
    let script = match shared.begin(call.method) {
        Ok(script) => script,
        Err(status) => {
            shared.end(number, Outcome::Status(status.code()));
            return Err(status);
        }
    };
    let turn = Turn { shared: Arc::clone(shared), number, ended: false };
    let (sender, receiver) = mpsc::channel(64);
    shared.spawn(perform(turn, call, script, sender));
    Ok(Response::new(ReceiverStream::new(receiver)))
}

/// The right to be the one servicing call. If its task dies, the call was aborted.
struct Turn {
    shared: Arc<Shared>,
    number: usize,
    ended: bool,
}

impl Turn {
    fn end(mut self, outcome: Outcome) {
        self.ended = true;
        self.shared.lock().busy = false;
        self.shared.end(self.number, outcome);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.lock().busy = false;
            self.shared.end(self.number, Outcome::Aborted);
        }
    }
}

async fn perform(turn: Turn, call: Call, script: Script, sender: Sender) {
    say(&sender, Part::Started(Started {})).await;
    for (count, record) in &script.logs {
        for _ in 0..*count {
            say(&sender, Part::Log(record.to_proto())).await;
        }
    }
    tokio::time::sleep(script.delay).await;
    if let Some(gate) = &script.gate {
        gate.pass().await;
    }
    let (outcome, last) = conclude(&turn.shared, &call, script.ending);
    // Over before the caller hears of it, so that its next call is not refused.
    turn.end(outcome);
    match last {
        Some(Ok(completed)) => say(&sender, Part::Completed(completed)).await,
        Some(Err(status)) => drop(sender.send(Err(status)).await),
        None => {}
    }
}

/// A client that is gone is no reason to stop.
async fn say(sender: &Sender, part: Part) {
    let timestamp = Some(prost_types::Timestamp::from(SystemTime::now()));
    drop(sender.send(Ok(ServicingResponse { timestamp, response: Some(part) })).await);
}

fn conclude(
    shared: &Shared,
    call: &Call,
    ending: Ending,
) -> (Outcome, Option<Result<Completed, Status>>) {
    match ending {
        Ending::Natural => complete(work(shared, &call.job), call.reboot),
        Ending::Claim(kind) => complete(Answer::done(kind), call.reboot),
        Ending::Fail(fault) => {
            if matches!(call.job, Job::Commit) {
                shared.change(super::world::World::disarm);
            }
            fail(fault)
        }
        Ending::Cut { done } => {
            if done {
                work(shared, &call.job);
            }
            (Outcome::Cut, None)
        }
        Ending::Break(code, message) | Ending::Refuse(code, message) => {
            (Outcome::Status(code), Some(Err(Status::new(code, message))))
        }
    }
}

fn complete(
    answer: Answer,
    handling: RebootHandling,
) -> (Outcome, Option<Result<Completed, Status>>) {
    let (kind, mut reboot, image_hash) = match answer {
        Answer::Done { kind, reboot, image_hash } => (kind, reboot, image_hash),
        Answer::Failed(fault) => return fail(Some(fault)),
    };
    // The stand-in never reboots anything, but says what tridentd would.
    if reboot == RebootStatus::RebootRequired && handling == RebootHandling::TridentHandlesReboot {
        reboot = RebootStatus::RebootStarted;
    }
    let completed = Completed {
        status: StatusCode::Success.into(),
        error: None,
        reboot_status: reboot.into(),
        image_hash,
        servicing_kind: Some(kind.into()),
    };
    (Outcome::Succeeded(kind), Some(Ok(completed)))
}

fn fail(fault: Option<Fault>) -> (Outcome, Option<Result<Completed, Status>>) {
    let completed = Completed {
        status: StatusCode::Failure.into(),
        error: fault.as_ref().map(Fault::to_proto),
        reboot_status: RebootStatus::RebootNotRequired.into(),
        image_hash: None,
        servicing_kind: None,
    };
    (Outcome::Failed(fault.map(|fault| fault.subkind().to_owned())), Some(Ok(completed)))
}

/// Changes the state as the job says.
fn work(shared: &Shared, job: &Job) -> Answer {
    match job {
        Job::Stage(wanted) => match wanted.clone().and_then(|wanted| fetch(shared, &wanted)) {
            Ok(image) => shared.change(|world| world.stage(image)),
            Err(fault) => Answer::Failed(fault),
        },
        Job::FinalizeUpdate => shared.change(super::world::World::finalize_update),
        Job::StageRollback(kind) => shared.change(|world| world.stage_rollback(*kind)),
        Job::FinalizeRollback => shared.change(super::world::World::finalize_rollback),
        Job::Commit => shared.change(super::world::World::commit),
        Job::Both(first, second) => match work(shared, first) {
            Answer::Done { kind, .. } if kind != ServicingKind::NoneRequired => {
                work(shared, second)
            }
            other => other,
        },
    }
}

/// The table stands for the update server's images.
fn fetch(shared: &Shared, wanted: &Wanted) -> Result<Image, Fault> {
    let version = shared.lock().images.get(&wanted.url).cloned();
    let missing = || {
        let message = format!("failed to load the image from {}: not found", wanted.url);
        Fault::new(TridentErrorKind::InvalidInputError, "load-cosi", &message)
    };
    Ok(Image { version: version.ok_or_else(missing)?, sha384: Some(wanted.sha384.clone()) })
}

/// The stage part of a request, with its summary.
pub(super) fn stage_job(config: Option<&super::proto::v1::HostConfiguration>) -> (Job, Value) {
    let wanted = config::parse(config);
    let mut summary = json!({ "config": config.map(|config| &config.config) });
    if let Ok(wanted) = &wanted {
        summary["url"] = json!(wanted.url);
        summary["sha384"] = json!(wanted.sha384);
    }
    (Job::Stage(wanted), summary)
}
