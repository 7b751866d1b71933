//! The door to tridentd: typed calls with deadlines, over its unix socket.
//!
//! What fails silently, or worse, with this daemon, and what stands against it:
//!
//! | rule | kept by |
//! | --- | --- |
//! | the authority must be `localhost`, or the server resets the stream | [`Trident::connect`] sets it on the only endpoint |
//! | the caller reboots; the daemon must not | [`Call`](call::Call) fills in `CALLER_HANDLES_REBOOT`, callers cannot choose |
//! | a rollback is A/B or nothing | likewise `AB_ROLLBACK_REQUESTED` |
//! | busy and starting mean "not yet" | every servicing call waits them out within its own deadline |
//! | what a busy daemon works on may be the same finalize, of an attempt that died | a finalize comes back at once as [`Error::is_busy`], so that its caller looks before it asks again |
//! | a call whose client went away runs on | [`Retry::FindOut`]: neither a failure nor a reason to start over blindly |
//! | success may mean that nothing was done | [`Served::kind`] has no default |
//!
//! Every attempt opens its own connection: a failure to connect is then certain to mean that
//! nothing was asked, and no idle connection keeps the daemon from leaving.

/// Waiting times between attempts.
mod backoff;
/// The servicing calls and how one is carried through.
mod call;
/// What can go wrong, and whether to try again.
mod error;
/// What a call has brought about.
mod outcome;
/// Waiting out a daemon that is busy or starting.
mod patience;
/// The daemon's log records, in ours.
mod records;
/// Text from the daemon, without the secret parts of addresses.
mod redact;
/// Generated code.
mod wire;

use std::fmt;
use std::time::Duration;

use tonic::transport::{Channel, Endpoint, Uri};

pub use error::{Error, Failure, Location, Refusal, Retry};
pub use outcome::{RebootStatus, Served, ServicingKind, ServicingState};

use call::Call;
use patience::{Busy, NotServed, once, patiently};
use wire::v1::VersionRequest;
use wire::v1::version_service_client::VersionServiceClient;
use wire::v1preview::GetServicingStateRequest;
use wire::v1preview::status_service_client::StatusServiceClient;

use crate::steps::{self, Step};

/// The server resets streams with any other authority.
const ORIGIN: &str = "http://localhost";
/// A question that changes nothing is answered at once or not at all.
const QUESTION_LIMIT: Duration = Duration::from_secs(10);

/// The image to stage: what tridentd fetches, and the SHA-384 of its metadata in hex.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// Where the image is; may be pre-signed, so it is never printed whole.
    pub url: String,
    /// 96 hexadecimal digits.
    pub sha384: String,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = redact::origin(&self.url);
        f.debug_struct("Image").field("url", &url).field("sha384", &self.sha384).finish()
    }
}

/// A tridentd, addressed by its socket. Holds no connection.
#[derive(Clone, Debug)]
pub struct Trident {
    endpoint: Endpoint,
}

impl Trident {
    /// Addresses the daemon at `unix:///absolute/path`; nothing is opened before the first call.
    pub fn connect(socket_uri: &str) -> Result<Trident, Error> {
        let bad = |reason| Error::BadSocket { socket: redact::origin(socket_uri), reason };
        let path =
            socket_uri.strip_prefix("unix://").ok_or_else(|| bad("not a unix:// address"))?;
        if !path.starts_with('/') || path == "/" {
            return Err(bad("not an absolute path after unix://"));
        }
        if path.contains('\0') {
            return Err(bad("the path holds a NUL byte"));
        }
        let endpoint = Endpoint::from_shared(format!("unix://{path}"))
            .map_err(|source| Error::BadEndpoint { source })?
            .origin(Uri::from_static(ORIGIN));
        Ok(Trident { endpoint })
    }

    /// Stages the image on the inactive volume.
    pub async fn stage(&self, image: &Image, deadline: Duration) -> Result<Served, Error> {
        self.serve(Call::Stage(image), deadline).await
    }

    /// Arms the boot into what is staged; the reboot is left to the caller. Does not wait out a busy daemon.
    pub async fn finalize(&self, deadline: Duration) -> Result<Served, Error> {
        self.serve(Call::Finalize, deadline).await
    }

    /// Stages the way back to the previous volume, A/B only.
    pub async fn rollback_stage(&self, deadline: Duration) -> Result<Served, Error> {
        self.serve(Call::RollbackStage, deadline).await
    }

    /// Arms the boot into the previous volume; the reboot is left to the caller. Does not wait out a busy daemon.
    pub async fn rollback_finalize(&self, deadline: Duration) -> Result<Served, Error> {
        self.serve(Call::RollbackFinalize, deadline).await
    }

    /// Commits what was booted. Never a probe: before the reboot it discards the armed update.
    pub async fn commit(&self, deadline: Duration) -> Result<Served, Error> {
        self.serve(Call::Commit, deadline).await
    }

    /// The daemon's servicing state; `None` where it does not offer the question. At most 10 s.
    pub async fn servicing_state(&self) -> Result<Option<ServicingState>, Error> {
        let what = "asking tridentd for its servicing state";
        let asked = || steps::awaited(Step::ServicingState, "", self.ask_state(what));
        let answer = patiently(what, QUESTION_LIMIT, Busy::WaitOut, asked).await;
        match answer {
            Ok(state) => Ok(Some(state)),
            Err(error) if error.is_unknown_call() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The daemon's version: one attempt, at most 10 s.
    pub async fn version(&self) -> Result<String, Error> {
        let what = "asking tridentd for its version";
        let asked = || steps::awaited(Step::TridentVersion, "", self.ask_version(what));
        once(what, QUESTION_LIMIT, asked).await
    }

    async fn serve(&self, call: Call<'_>, deadline: Duration) -> Result<Served, Error> {
        call::carry_through(&self.endpoint, &call, deadline).await
    }

    async fn ask_state(&self, what: &'static str) -> Result<ServicingState, NotServed> {
        let mut client = StatusServiceClient::new(self.open().await?);
        let answer = client.get_servicing_state(GetServicingStateRequest {}).await;
        let answer = answer.map_err(|status| NotServed::from_status(what, status))?;
        Ok(ServicingState::from_wire(answer.into_inner().state()))
    }

    async fn ask_version(&self, what: &'static str) -> Result<String, NotServed> {
        let mut client = VersionServiceClient::new(self.open().await?);
        let answer = client.version(VersionRequest {}).await;
        let answer = answer.map_err(|status| NotServed::from_status(what, status))?;
        Ok(redact::text(&answer.into_inner().version))
    }

    async fn open(&self) -> Result<Channel, NotServed> {
        call::open(&self.endpoint).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_unix_sockets_are_addressed() {
        assert!(Trident::connect("unix:///run/trident/trident.sock").is_ok());
        for uri in [
            "",
            "/run/t.sock",
            "http://localhost:1",
            "unix:",
            "unix://",
            "unix:///",
            "unix://run/t.sock",
            "unix:/run/t.sock",
            "unix:///a\0b",
        ] {
            let error = Trident::connect(uri).expect_err(uri);
            assert_eq!(error.retry(), Retry::No, "{uri}");
        }
    }

    #[test]
    fn a_refused_address_keeps_its_password() {
        let error =
            Trident::connect("https://me:secret@host:1/path?sig=secret").expect_err("https");
        assert!(!format!("{error} {error:?}").contains("secret"));
        assert!(error.to_string().contains("https://host:1"), "{error}");
    }

    #[test]
    fn an_image_prints_its_origin_only() {
        let image = Image { url: "https://u:p@h/x.cosi?sig=s".into(), sha384: "ab".into() };
        assert_eq!(format!("{image:?}"), r#"Image { url: "https://h", sha384: "ab" }"#);
    }
}
