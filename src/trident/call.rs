//! The servicing calls, and how one is carried through to its result.

use std::time::Duration;

use tokio::time::timeout_at;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status, Streaming};

use super::Image;
use super::error::{Error, Refusal};
use super::outcome::{self, Served};
use super::patience::{Busy, NotServed, deadline, ended, patiently};
use super::records::Relay;
use super::wire::v1::commit_service_client::CommitServiceClient;
use super::wire::v1::rollback_service_client::RollbackServiceClient;
use super::wire::v1::servicing_response::Response as Part;
use super::wire::v1::update_service_client::UpdateServiceClient;
use super::wire::v1::{
    CommitRequest, Completed, FinalizeUpdateRequest, HostConfiguration, ManualRollbackKind,
    RebootHandling, RebootManagement, RollbackFinalizeRequest, RollbackStageRequest,
    ServicingResponse, StageUpdateRequest,
};
use crate::steps::{self, Step};

/// gRPC's default of 4 MiB would break a stage at one long log record.
const MESSAGE_LIMIT: usize = 64 * 1024 * 1024;

/// A servicing call; reboot handling and rollback kind are not the caller's to choose.
#[derive(Debug)]
pub(super) enum Call<'a> {
    /// `UpdateStage`.
    Stage(&'a Image),
    /// `UpdateFinalize`.
    Finalize,
    /// `RollbackStage`.
    RollbackStage,
    /// `RollbackFinalize`.
    RollbackFinalize,
    /// `Commit`.
    Commit,
}

type Answer = Result<Response<Streaming<ServicingResponse>>, Status>;

impl Call<'_> {
    fn what(&self) -> &'static str {
        match self {
            Call::Stage(_) => "staging the update",
            Call::Finalize => "finalizing the update",
            Call::RollbackStage => "staging the rollback",
            Call::RollbackFinalize => "finalizing the rollback",
            Call::Commit => "committing",
        }
    }

    /// What a daemon that is busy works on may be this very call, of an attempt that died: a boot must not be
    /// armed twice, so the caller is to look first.
    fn busy(&self) -> Busy {
        match self {
            Call::Finalize | Call::RollbackFinalize => Busy::Tell,
            Call::Stage(_) | Call::RollbackStage | Call::Commit => Busy::WaitOut,
        }
    }

    async fn send(&self, channel: Channel) -> Answer {
        match self {
            Call::Stage(image) => update(channel).update_stage(stage_request(image)).await,
            Call::Finalize => {
                update(channel).update_finalize(FinalizeUpdateRequest { reboot: ours() }).await
            }
            Call::RollbackStage => {
                let kind = ManualRollbackKind::AbRollbackRequested.into();
                rollback(channel).rollback_stage(RollbackStageRequest { kind }).await
            }
            Call::RollbackFinalize => {
                rollback(channel)
                    .rollback_finalize(RollbackFinalizeRequest { reboot: ours() })
                    .await
            }
            Call::Commit => {
                CommitServiceClient::new(channel)
                    .max_decoding_message_size(MESSAGE_LIMIT)
                    .commit(CommitRequest { reboot: ours() })
                    .await
            }
        }
    }
}

fn update(channel: Channel) -> UpdateServiceClient<Channel> {
    UpdateServiceClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT)
}

fn rollback(channel: Channel) -> RollbackServiceClient<Channel> {
    RollbackServiceClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT)
}

/// The host configuration is a YAML document, and JSON is YAML.
fn stage_request(image: &Image) -> StageUpdateRequest {
    let image = serde_json::json!({ "image": { "url": image.url, "sha384": image.sha384 } });
    StageUpdateRequest { config: Some(HostConfiguration { config: image.to_string() }) }
}

fn ours() -> Option<RebootManagement> {
    Some(RebootManagement { handling: RebootHandling::CallerHandlesReboot.into() })
}

/// Opens a connection of its own for one attempt.
pub(super) async fn open(endpoint: &Endpoint) -> Result<Channel, NotServed> {
    let refused = |source| NotServed::Refused(Refusal::NotListening(source));
    endpoint.connect().await.map_err(refused)
}

/// A call that the daemon has taken: its first message, if any, and the rest.
struct Taken {
    first: Option<ServicingResponse>,
    rest: Streaming<ServicingResponse>,
}

/// Makes `call` within `limit`, waiting included, and reads its answer to the result.
pub(super) async fn carry_through(
    endpoint: &Endpoint,
    call: &Call<'_>,
    limit: Duration,
) -> Result<Served, Error> {
    let what = call.what();
    let until = deadline(limit);
    let begun = || steps::awaited(Step::ServicingCall, what, begin(endpoint, call));
    let taken = patiently(what, limit, call.busy(), begun).await?;
    // Cancelled by the deadline: the daemon finishes a call whose client has gone.
    let answer = timeout_at(until, read_through(what, taken));
    let completed = steps::awaited(Step::ServicingAnswer, what, answer)
        .await
        .map_err(|_elapsed| Error::TimedOut { what, after: limit })??;
    outcome::read(what, completed)
}

/// One attempt. Busy may come as the call's status or as the stream's, before any message.
async fn begin(endpoint: &Endpoint, call: &Call<'_>) -> Result<Taken, NotServed> {
    let judge = |status| NotServed::from_status(call.what(), status);
    let channel = open(endpoint).await?;
    let mut rest = call.send(channel).await.map_err(judge)?.into_inner();
    let first = rest.message().await.map_err(judge)?;
    Ok(Taken { first, rest })
}

/// Reads to the result, passing log records on.
async fn read_through(what: &'static str, taken: Taken) -> Result<Completed, Error> {
    let Taken { first, mut rest } = taken;
    let mut relay = Relay::new();
    let mut next = first;
    while let Some(message) = next {
        match message.response {
            Some(Part::Completed(completed)) => return Ok(completed),
            Some(Part::Log(log)) => relay.pass(&log),
            // A part that we do not know arrives as none.
            Some(Part::Started(_)) | None => {}
        }
        next = rest.message().await.map_err(|status| ended(what, status, true))?;
    }
    Err(Error::NoAnswer { what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_values_stay_values_in_the_configuration() {
        let image = Image { url: "https://h/\"}\n- evil: é".into(), sha384: "ab".into() };
        let config = stage_request(&image).config.expect("a configuration").config;
        let parsed: serde_json::Value = serde_json::from_str(&config).expect("JSON");
        assert_eq!(parsed["image"]["url"], image.url);
        assert_eq!(parsed.as_object().map(serde_json::Map::len), Some(1));
    }

    #[test]
    fn every_reboot_is_the_callers() {
        assert_eq!(ours().map(|reboot| reboot.handling), Some(2));
    }
}
