//! Delivery: oldest first, removed from the state only when the server took it. Never fails the operation
//! that an event tells of.

use futures_util::FutureExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;
use tracing::{Instrument, error, info, warn};

use super::OperateError;
use super::means::{DEADLINE, Means};
use crate::contract::{Id, Update, chain, operation_span, origin};
use crate::omaha::{App, Client, Event, IdentityError, ReportError};
use crate::state::{EventKind, OwedEvent};

/// Whether systemd wants this process to end. It ends between two events: broken off in the middle of one, it
/// could not tell whether the server took it, and it would be told twice.
#[derive(Debug)]
pub(super) struct Stop(Option<Signal>);

impl Stop {
    /// From now on the signal ends nothing by itself.
    pub(super) fn on_terminate() -> std::io::Result<Self> {
        signal(SignalKind::terminate()).map(|terminate| Self(Some(terminate)))
    }

    /// For an operation, which delivers beside its work.
    pub(super) fn never() -> Self {
        Self(None)
    }

    fn is_asked(&mut self) -> bool {
        self.0.as_mut().is_some_and(|terminate| terminate.recv().now_or_never().is_some())
    }
}

/// Delivers what is owed, once; an event that cannot be delivered holds back the later ones of its server
/// and app, for their order matters.
///
/// # Errors
/// [`OperateError::StillOwed`].
pub(super) async fn deliver_all(means: &Means, stop: &mut Stop) -> Result<(), OperateError> {
    deliver_some(means, stop, |_| true).await
}

async fn deliver_some(
    means: &Means,
    stop: &mut Stop,
    wanted: impl Fn(&OwedEvent) -> bool,
) -> Result<(), OperateError> {
    let Some(_lock) = means.store.lock_report()? else {
        info!("another process delivers events");
        return Ok(());
    };
    let mut owed = means.store.read()?.owed_events;
    owed.retain(wanted);
    if owed.is_empty() {
        return Ok(());
    }
    let client = means.nebraska()?;
    let mut held: Vec<&OwedEvent> = Vec::new();
    for event in &owed {
        let behind = held.iter().any(|it| it.server == event.server && it.app_id == event.app_id);
        if behind || stop.is_asked() || !deliver(means, &client, event).await? {
            held.push(event);
        }
    }
    match held.len() {
        0 => Ok(()),
        left => Err(OperateError::StillOwed { left }),
    }
}

/// Whether the server took it.
async fn deliver(means: &Means, client: &Client, owed: &OwedEvent) -> Result<bool, OperateError> {
    let target = Some(owed.target_version.as_str());
    let span = operation_span(&owed.operation_id, &owed.node_update_id, owed.operation, target);
    let sent = send(means, client, owed).instrument(span.clone()).await;
    let _entered = span.entered();
    match sent {
        Ok(()) => info!("Nebraska took the event {:?}", owed.event),
        Err(Undelivered::Never(why)) => error!("dropping the event {:?}: {why}", owed.event),
        Err(Undelivered::Yet(why)) => {
            warn!("Nebraska did not take the event {:?}, it stays owed: {why}", owed.event);
            return Ok(false);
        }
    }
    means.store.update(|state| {
        if let Some(position) = state.owed_events.iter().position(|it| it == owed) {
            state.owed_events.remove(position);
        }
    })?;
    Ok(true)
}

/// Why an event is not delivered. One that never can be would hold back all later ones.
enum Undelivered {
    Yet(String),
    Never(String),
}

async fn send(means: &Means, client: &Client, owed: &OwedEvent) -> Result<(), Undelivered> {
    // Not every request came through the watcher's check: some are recovered from what the Node says.
    if !means.config.allowed_servers.allows(&owed.server) {
        let server = origin(&owed.server);
        return Err(Undelivered::Never(format!("{server} is not among the allowed servers")));
    }
    let app = app(&owed.server, &owed.app_id, &owed.track);
    let sent = match (app, event(&owed.event)) {
        (Ok(app), Ok(event)) => client.report(&app, &owed.version, &event).await,
        (Err(source), _) | (_, Err(source)) => Err(ReportError::Identity(source)),
    };
    sent.map_err(|error| match error.is_hopeless() {
        true => Undelivered::Never(chain(&error)),
        false => Undelivered::Yet(chain(&error)),
    })
}

pub(super) fn app(server: &url::Url, app_id: &str, track: &str) -> Result<App, IdentityError> {
    let server = server.clone().try_into()?;
    Ok(App { server, app_id: app_id.to_owned(), track: track.to_owned() })
}

fn event(kind: &EventKind) -> Result<Event, IdentityError> {
    Ok(match kind {
        EventKind::DownloadStarted => Event::DownloadStarted,
        EventKind::DownloadFinished => Event::DownloadFinished,
        EventKind::Installed => Event::Installed,
        EventKind::Complete { previous_version } => {
            Event::Complete { previous_version: previous_version.clone().try_into()? }
        }
        EventKind::Failed => Event::Failed,
    })
}

/// Before a new check, its server should know how the last update of this app ended. Not waited for longer than
/// one exchange may take, however many events there are; other servers' events can wait.
pub(super) async fn deliver_first(means: &Means, id: &Id, update: &Update) {
    let concerned =
        |event: &OwedEvent| event.server == update.server && event.app_id == update.app_id;
    let owed = match means.store.read() {
        Ok(state) => state.owed_events,
        Err(_) => return,
    };
    if !owed.iter().any(|event| event.operation_id != *id && concerned(event)) {
        return;
    }
    // Cut off in the middle of one, it is told again later: Nebraska does not mind.
    match timeout(DEADLINE, deliver_some(means, &mut Stop::never(), concerned)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!("earlier events are still owed, ignoring: {}", chain(&error)),
        Err(_elapsed) => warn!("earlier events are still owed after {DEADLINE:?}, ignoring"),
    }
}
