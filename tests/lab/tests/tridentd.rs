//! The stand-in tridentd behaves as the real one is known to.

use std::time::Duration;

use anyhow::{Context, Result};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use trident_lab::trident::proto::v1::commit_service_client::CommitServiceClient;
use trident_lab::trident::proto::v1::rollback_service_client::RollbackServiceClient;
use trident_lab::trident::proto::v1::servicing_response::Response as Part;
use trident_lab::trident::proto::v1::update_service_client::UpdateServiceClient;
use trident_lab::trident::proto::v1::version_service_client::VersionServiceClient;
use trident_lab::trident::proto::v1::{
    CommitRequest, Completed, FinalizeUpdateRequest, HostConfiguration, LogLevel,
    ManualRollbackKind, RebootHandling, RebootManagement, RebootStatus, RollbackFinalizeRequest,
    RollbackStageRequest, ServicingKind, ServicingResponse, StageUpdateRequest, StatusCode,
    TridentErrorKind, VersionRequest,
};
use trident_lab::trident::proto::v1preview::status_service_client::StatusServiceClient;
use trident_lab::trident::proto::v1preview::{GetServicingStateRequest, ServicingState};
use trident_lab::trident::{Fault, InFlight, Method, Outcome, Record, Script, Slot, Tridentd};

const URL: &str = "https://updates.lab.test/2.0.0.cosi";
const LIMIT: Duration = Duration::from_secs(10);

struct Bench {
    dir: tempfile::TempDir,
    daemon: Tridentd,
    channel: Channel,
}

impl Bench {
    async fn new() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let daemon = Tridentd::start_new(dir.path(), &dir.path().join("s"), "1.0.0")?;
        daemon.add_image(URL, "2.0.0");
        let channel = connect(&daemon, "http://localhost").await?;
        Ok(Self { dir, daemon, channel })
    }

    async fn stage(&self, url: &str) -> Result<Streaming<ServicingResponse>, Status> {
        let config = format!(r#"{{"image":{{"url":"{url}","sha384":"{}"}}}}"#, "ab".repeat(48));
        let request = StageUpdateRequest { config: Some(HostConfiguration { config }) };
        let mut client = UpdateServiceClient::new(self.channel.clone());
        Ok(client.update_stage(request).await?.into_inner())
    }

    async fn staged(&self, url: &str) -> Result<Completed> {
        last(self.stage(url).await?).await
    }

    async fn finalize(&self) -> Result<Completed> {
        let request = FinalizeUpdateRequest { reboot: reboot() };
        let mut client = UpdateServiceClient::new(self.channel.clone());
        last(client.update_finalize(request).await?.into_inner()).await
    }

    async fn roll_back(&self) -> Result<Completed> {
        let kind = ManualRollbackKind::AbRollbackRequested.into();
        let mut client = RollbackServiceClient::new(self.channel.clone());
        let staged = client.rollback_stage(RollbackStageRequest { kind }).await?.into_inner();
        let staged = last(staged).await?;
        if staged.servicing_kind() != ServicingKind::ManualRollbackAb {
            return Ok(staged);
        }
        let request = RollbackFinalizeRequest { reboot: reboot() };
        last(client.rollback_finalize(request).await?.into_inner()).await
    }

    async fn commit(&self) -> Result<Completed> {
        let mut client = CommitServiceClient::new(self.channel.clone());
        last(client.commit(CommitRequest { reboot: reboot() }).await?.into_inner()).await
    }
}

fn reboot() -> Option<RebootManagement> {
    Some(RebootManagement { handling: RebootHandling::CallerHandlesReboot.into() })
}

async fn connect(daemon: &Tridentd, origin: &'static str) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("unix:{}", daemon.socket().display()))?;
    Ok(endpoint.origin(origin.parse()?).connect().await?)
}

async fn parts(mut stream: Streaming<ServicingResponse>) -> Result<Vec<Part>, Status> {
    let mut parts = Vec::new();
    while let Some(message) = stream.message().await? {
        parts.extend(message.response);
    }
    Ok(parts)
}

async fn last(stream: Streaming<ServicingResponse>) -> Result<Completed> {
    let parts = parts(stream).await?;
    assert!(matches!(parts.first(), Some(Part::Started(_))));
    match parts.into_iter().next_back() {
        Some(Part::Completed(completed)) => Ok(completed),
        other => anyhow::bail!("no Completed, but {other:?}"),
    }
}

fn subkind(completed: &Completed) -> &str {
    assert_eq!(completed.status(), StatusCode::Failure);
    completed.error.as_ref().map_or("", |error| &error.subkind)
}

#[tokio::test]
async fn an_update_and_its_rollback() -> Result<()> {
    let bench = Bench::new().await?;
    let staged = bench.staged(URL).await?;
    assert_eq!(staged.servicing_kind(), ServicingKind::AbUpdate);
    assert_eq!(staged.image_hash.as_deref(), Some("ab".repeat(48).as_str()));
    assert_eq!(bench.daemon.servicing_state(), ServicingState::UpdateAbStaged);
    assert_eq!(bench.finalize().await?.reboot_status(), RebootStatus::RebootRequired);
    assert_eq!(bench.daemon.firmware_boot().version, "2.0.0");
    assert_eq!(bench.commit().await?.servicing_kind(), ServicingKind::AbUpdate);
    assert_eq!(bench.daemon.firmware_boot().slot, Slot::B);
    assert_eq!(bench.staged(URL).await?.servicing_kind(), ServicingKind::NoneRequired);

    assert_eq!(bench.roll_back().await?.reboot_status(), RebootStatus::RebootRequired);
    let booted = bench.daemon.firmware_boot();
    assert_eq!((booted.slot, booted.version.as_str()), (Slot::A, "1.0.0"));
    assert!(booted.os_release().contains("VERSION_ID=1.0.0\n"));
    assert_eq!(bench.commit().await?.servicing_kind(), ServicingKind::ManualRollbackAb);
    assert_eq!(bench.roll_back().await?.servicing_kind(), ServicingKind::NoneRequired);
    let finalize = bench.daemon.calls_of(Method::UpdateFinalize);
    assert_eq!(finalize[0].request["reboot"], "CALLER_HANDLES_REBOOT");
    assert_eq!(finalize[0].authority, "localhost");
    Ok(())
}

#[tokio::test]
async fn the_firmware_may_undo_the_armed_boot() -> Result<()> {
    let bench = Bench::new().await?;
    bench.staged(URL).await?;
    bench.finalize().await?;
    bench.daemon.fail_next_boot();
    assert_eq!(bench.daemon.firmware_boot().version, "1.0.0");
    assert_eq!(subkind(&bench.commit().await?), "ab-update-reboot-check");
    assert_eq!(bench.commit().await?.servicing_kind(), ServicingKind::NoneRequired);
    assert_eq!(bench.daemon.firmware_boot().version, "1.0.0");
    Ok(())
}

#[tokio::test]
async fn a_commit_before_the_reboot_disarms() -> Result<()> {
    let bench = Bench::new().await?;
    bench.staged(URL).await?;
    bench.finalize().await?;
    assert_eq!(subkind(&bench.commit().await?), "ab-update-reboot-check");
    assert_eq!(bench.daemon.firmware_boot().version, "1.0.0");
    assert_eq!(subkind(&bench.finalize().await?), "invalid-servicing-state");
    Ok(())
}

#[tokio::test]
async fn an_uncommitted_slot_is_left_by_the_next_boot() -> Result<()> {
    let bench = Bench::new().await?;
    bench.staged(URL).await?;
    bench.finalize().await?;
    assert_eq!(bench.daemon.firmware_boot().version, "2.0.0");
    assert_eq!(bench.daemon.firmware_boot().version, "1.0.0");
    assert_eq!(subkind(&bench.commit().await?), "ab-update-reboot-check");
    Ok(())
}

#[tokio::test]
async fn state_outlives_the_daemon() -> Result<()> {
    let bench = Bench::new().await?;
    bench.staged(URL).await?;
    bench.finalize().await?;
    let Bench { dir, daemon, .. } = bench;
    drop(daemon);
    let daemon = Tridentd::start_new(dir.path(), &dir.path().join("s"), "9.9.9")?;
    assert_eq!(daemon.servicing_state(), ServicingState::UpdateAbFinalized);
    assert_eq!(daemon.firmware_boot().version, "2.0.0");
    assert!(daemon.commit_elsewhere());
    assert_eq!(daemon.servicing_state(), ServicingState::Provisioned);
    Ok(())
}

#[tokio::test]
async fn busy_until_an_abandoned_call_is_done() -> Result<()> {
    let bench = Bench::new().await?;
    let gate = bench.daemon.hold(Method::UpdateStage, Script::new());
    let stream = bench.stage(URL).await?;
    gate.reached().await;
    drop(stream);
    let refused = bench.stage(URL).await.err().context("it was let in")?;
    assert_eq!(refused.code(), Code::Unavailable);
    gate.release();
    bench.daemon.wait_ended(Method::UpdateStage, 2, LIMIT).await?;
    assert_eq!(bench.daemon.servicing_state(), ServicingState::UpdateAbStaged);
    let first = bench.daemon.calls()[0].outcome.clone();
    assert_eq!(first, Some(Outcome::Succeeded(ServicingKind::AbUpdate)));
    Ok(())
}

#[tokio::test]
async fn dying_breaks_calls_and_may_undo_them() -> Result<()> {
    for in_flight in [InFlight::Abort, InFlight::Finish] {
        let bench = Bench::new().await?;
        let gate = bench.daemon.hold(Method::UpdateStage, Script::new());
        let stream = bench.stage(URL).await?;
        gate.reached().await;
        bench.daemon.stop(in_flight);
        assert!(parts(stream).await.is_err());
        assert!(!bench.daemon.socket().exists());
        gate.release();
        bench.daemon.wait_ended(Method::UpdateStage, 1, LIMIT).await?;
        bench.daemon.start()?;
        let aborted = bench.daemon.calls()[0].outcome == Some(Outcome::Aborted);
        assert_eq!(aborted, in_flight == InFlight::Abort);
        let expected = if aborted { "invalid-servicing-state" } else { "" };
        let finalized = bench.finalize().await?;
        assert_eq!(finalized.error.map(|error| error.subkind).unwrap_or_default(), expected);
    }
    Ok(())
}

#[tokio::test]
async fn scripted_endings() -> Result<()> {
    let bench = Bench::new().await?;
    let daemon = &bench.daemon;
    let record = Record::new(LogLevel::Warn, "long").from_module("t", "m").at("f.rs", 3);
    daemon.next(Method::UpdateStage, Script::new().logs(20_000, record).cut(true));
    let all = parts(bench.stage(URL).await?).await?;
    assert_eq!(all.len(), 20_001);
    assert_eq!(daemon.servicing_state(), ServicingState::UpdateAbStaged);

    let fault = Fault::new(TridentErrorKind::ServicingError, "some-subkind", "no").at("x.rs", 7);
    daemon.next(Method::UpdateStage, Script::new().fail(fault));
    daemon.next(Method::UpdateStage, Script::new().fail_bare());
    daemon.next(Method::UpdateStage, Script::new().refuse(Code::PermissionDenied, "no"));
    daemon.next(Method::UpdateStage, Script::new().break_with(Code::Internal, "no"));
    daemon.next(Method::UpdateStage, Script::new().claim(ServicingKind::RuntimeUpdate));
    let failed = bench.staged(URL).await?;
    assert_eq!(subkind(&failed), "some-subkind");
    assert_eq!(failed.error.and_then(|error| error.location).map(|at| at.line), Some(7));
    assert_eq!(bench.staged(URL).await?.error, None);
    assert_eq!(bench.stage(URL).await.err().map(|s| s.code()), Some(Code::PermissionDenied));
    assert_eq!(parts(bench.stage(URL).await?).await.err().map(|s| s.code()), Some(Code::Internal));
    assert_eq!(bench.staged(URL).await?.servicing_kind(), ServicingKind::RuntimeUpdate);
    Ok(())
}

#[tokio::test]
async fn odd_requests_are_refused() -> Result<()> {
    let bench = Bench::new().await?;
    assert_eq!(subkind(&bench.staged("https://elsewhere.test/x").await?), "load-cosi");
    let mut client = UpdateServiceClient::new(bench.channel.clone());
    let config = r#"{"image":{"url":"https://updates.lab.test/2.0.0.cosi"}}"#.to_owned();
    let request = StageUpdateRequest { config: Some(HostConfiguration { config }) };
    let completed = last(client.update_stage(request).await?.into_inner()).await?;
    assert_eq!(subkind(&completed), "parse-host-configuration");

    let stranger = connect(&bench.daemon, "http://elsewhere").await?;
    let refused = VersionServiceClient::new(stranger).version(VersionRequest {}).await;
    assert_eq!(refused.err().map(|status| status.code()), Some(Code::InvalidArgument));
    assert_eq!(bench.daemon.strangers(), ["elsewhere"]);
    Ok(())
}

#[tokio::test]
async fn the_status_service_may_be_absent() -> Result<()> {
    let bench = Bench::new().await?;
    let mut client = StatusServiceClient::new(bench.channel.clone());
    let state = client.get_servicing_state(GetServicingStateRequest {}).await?.into_inner();
    assert_eq!(state.state(), ServicingState::Provisioned);
    bench.daemon.offer_status_service(false);
    let refused = client.get_servicing_state(GetServicingStateRequest {}).await;
    assert_eq!(refused.err().map(|status| status.code()), Some(Code::Unimplemented));
    Ok(())
}
