//! The generated server traits: each method is read into a [`Call`] and served.

use std::sync::Arc;

use serde_json::{Value, json};
use tonic::{Request, Response, Status};

use super::proto::v1::commit_service_server::CommitService;
use super::proto::v1::rollback_service_server::RollbackService;
use super::proto::v1::update_service_server::UpdateService;
use super::proto::v1::version_service_server::VersionService;
use super::proto::v1::{
    CommitRequest, FinalizeUpdateRequest, ManualRollbackKind, RebootHandling,
    RollbackFinalizeRequest, RollbackRequest, RollbackStageRequest, StageUpdateRequest,
    UpdateRequest, VersionRequest, VersionResponse,
};
use super::proto::v1preview::status_service_server::StatusService;
use super::proto::v1preview::{
    AbVolumeState, GetActiveVolumeRequest, GetActiveVolumeResponse, GetServicingStateRequest,
    GetServicingStateResponse,
};
use super::record::{Method, Outcome};
use super::servicing::{Call, Job, Stream, authority, handling, serve, stage_job};
use super::shared::Shared;
use super::world::Slot;

/// All of tridentd's services.
#[derive(Clone)]
pub(super) struct Services(pub(super) Arc<Shared>);

type Streamed = Result<Response<Stream>, Status>;

#[tonic::async_trait]
impl UpdateService for Services {
    type UpdateStream = Stream;
    type UpdateStageStream = Stream;
    type UpdateFinalizeStream = Stream;

    async fn update(&self, request: Request<UpdateRequest>) -> Streamed {
        let message = request.get_ref();
        let (stage, mut summary) =
            stage_job(message.stage.as_ref().and_then(|stage| stage.config.as_ref()));
        let reboot = handling(message.finalize.as_ref().and_then(|last| last.reboot.as_ref()));
        summary["reboot"] = json!(reboot.as_str_name());
        let job = Job::Both(Box::new(stage), Box::new(Job::FinalizeUpdate));
        let call = Call { method: Method::Update, job, reboot, summary };
        serve(&self.0, call, authority(&request))
    }

    async fn update_stage(&self, request: Request<StageUpdateRequest>) -> Streamed {
        let (job, summary) = stage_job(request.get_ref().config.as_ref());
        let reboot = RebootHandling::Unspecified;
        let call = Call { method: Method::UpdateStage, job, reboot, summary };
        serve(&self.0, call, authority(&request))
    }

    async fn update_finalize(&self, request: Request<FinalizeUpdateRequest>) -> Streamed {
        let reboot = handling(request.get_ref().reboot.as_ref());
        let call = last_step(Method::UpdateFinalize, Job::FinalizeUpdate, reboot);
        serve(&self.0, call, authority(&request))
    }
}

#[tonic::async_trait]
impl RollbackService for Services {
    type RollbackStream = Stream;
    type RollbackStageStream = Stream;
    type RollbackFinalizeStream = Stream;

    async fn rollback(&self, request: Request<RollbackRequest>) -> Streamed {
        let message = request.get_ref();
        let (kind, reboot) = (
            message.kind(),
            handling(message.finalize.as_ref().and_then(|last| last.reboot.as_ref())),
        );
        let summary = json!({ "kind": kind.as_str_name(), "reboot": reboot.as_str_name() });
        let job = Job::Both(Box::new(Job::StageRollback(kind)), Box::new(Job::FinalizeRollback));
        let call = Call { method: Method::Rollback, job, reboot, summary };
        serve(&self.0, call, authority(&request))
    }

    async fn rollback_stage(&self, request: Request<RollbackStageRequest>) -> Streamed {
        let kind: ManualRollbackKind = request.get_ref().kind();
        let (job, reboot) = (Job::StageRollback(kind), RebootHandling::Unspecified);
        let summary = json!({ "kind": kind.as_str_name() });
        let call = Call { method: Method::RollbackStage, job, reboot, summary };
        serve(&self.0, call, authority(&request))
    }

    async fn rollback_finalize(&self, request: Request<RollbackFinalizeRequest>) -> Streamed {
        let reboot = handling(request.get_ref().reboot.as_ref());
        let call = last_step(Method::RollbackFinalize, Job::FinalizeRollback, reboot);
        serve(&self.0, call, authority(&request))
    }
}

#[tonic::async_trait]
impl CommitService for Services {
    type CommitStream = Stream;

    async fn commit(&self, request: Request<CommitRequest>) -> Streamed {
        let reboot = handling(request.get_ref().reboot.as_ref());
        let call = last_step(Method::Commit, Job::Commit, reboot);
        serve(&self.0, call, authority(&request))
    }
}

fn last_step(method: Method, job: Job, reboot: RebootHandling) -> Call {
    Call { method, job, reboot, summary: json!({ "reboot": reboot.as_str_name() }) }
}

impl Services {
    /// Records a unary call. They are answered while a servicing call runs, too.
    fn answered<T>(&self, method: Method, request: &Request<T>) {
        let number = self.0.note(method, Value::Null, authority(request));
        self.0.end(number, Outcome::Answered);
    }

    fn status_service<T>(&self, method: Method, request: &Request<T>) -> Result<(), Status> {
        if self.0.lock().has_status_service {
            self.answered(method, request);
            return Ok(());
        }
        let number = self.0.note(method, Value::Null, authority(request));
        self.0.end(number, Outcome::Status(tonic::Code::Unimplemented));
        Err(Status::unimplemented(""))
    }
}

#[tonic::async_trait]
impl VersionService for Services {
    async fn version(
        &self,
        request: Request<VersionRequest>,
    ) -> Result<Response<VersionResponse>, Status> {
        self.answered(Method::Version, &request);
        self.0.begin_unary(Method::Version)?;
        Ok(Response::new(VersionResponse { version: self.0.lock().daemon_version.clone() }))
    }
}

#[tonic::async_trait]
impl StatusService for Services {
    async fn get_servicing_state(
        &self,
        request: Request<GetServicingStateRequest>,
    ) -> Result<Response<GetServicingStateResponse>, Status> {
        self.status_service(Method::GetServicingState, &request)?;
        let state = self.0.world().servicing_state();
        Ok(Response::new(GetServicingStateResponse { state: state.into() }))
    }

    async fn get_active_volume(
        &self,
        request: Request<GetActiveVolumeRequest>,
    ) -> Result<Response<GetActiveVolumeResponse>, Status> {
        self.status_service(Method::GetActiveVolume, &request)?;
        let active_volume = match self.0.world().booted() {
            Slot::A => AbVolumeState::VolumeA,
            Slot::B => AbVolumeState::VolumeB,
        };
        Ok(Response::new(GetActiveVolumeResponse { active_volume: active_volume.into() }))
    }
}
