//! What an update check was answered.

use super::error::Error;
use super::identity::{App, Server};
use super::offer::{HashSource, Offer};
use super::reply::{AppReply, Update};

/// The answer to an update check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckAnswer {
    /// Here is an update; whether it is the wanted one is for the caller to see.
    Offer(Offer),
    /// There is none.
    NoUpdate,
    /// The server believes that this instance is in the middle of an update.
    InProgress,
    /// Not now: the server's limits or switches say so. Holds its status.
    Later(String),
    /// No. Holds the server's status.
    Refused(String),
}

impl CheckAnswer {
    /// Reads what the body of an answer says of our app.
    ///
    /// # Errors
    /// It is no answer to an update check of this app, or the offer in it cannot be used.
    pub fn read(app: &App, body: &[u8], hash: HashSource) -> Result<CheckAnswer, Error> {
        judge(&app.server, &AppReply::read(app, body)?, hash)
    }
}

fn judge(server: &Server, reply: &AppReply, hash: HashSource) -> Result<CheckAnswer, Error> {
    if reply.status != "ok" {
        return Ok(refusal(&reply.status));
    }
    let missing = || Error::UpdateCheckMissing { server: server.clone() };
    let update = reply.update.as_ref().ok_or_else(missing)?;
    match update.status.as_str() {
        "ok" => offer(server, update, hash),
        "noupdate" => Ok(CheckAnswer::NoUpdate),
        other => Ok(CheckAnswer::Refused(format!("update check: {other}"))),
    }
}

fn offer(server: &Server, update: &Update, hash: HashSource) -> Result<CheckAnswer, Error> {
    match Offer::read(update, hash) {
        Ok(offer) => Ok(CheckAnswer::Offer(offer)),
        Err(source) => Err(Error::Offer { server: server.clone(), source }),
    }
}

fn refusal(status: &str) -> CheckAnswer {
    match status {
        "error-updateInProgressOnInstance" => CheckAnswer::InProgress,
        "error-maxUpdatesPerPeriodLimitReached"
        | "error-maxConcurrentUpdatesLimitReached"
        | "error-maxTimedOutUpdatesLimitReached"
        | "error-updatesDisabled" => CheckAnswer::Later(status.to_owned()),
        other => CheckAnswer::Refused(other.to_owned()),
    }
}

#[cfg(test)]
mod tests;
