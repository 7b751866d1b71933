//! A list, then the events from there on. When to try again is the caller's business, after an end as after
//! an error: whoever answers for the API server may end every watch at once.
//!
//! ```text
//!  no version ──list──▶ version ──watch──▶ stream ──event──▶ stream, newer version
//!      ▲                 │   ▲              │   │
//!      │ error, 410 Gone │   └──────────────┘   │
//!      └─────────────────┴── ended, broke off ──┘
//! ```

use std::ops::RangeInclusive;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::error::Refusal;
use super::node::{Event, Object};
use super::wire::Lines;
use super::{KubeError, NodeApi, Seen};
use crate::contract::chain;
use crate::steps::{self, Step};

const WHAT: &str = "watching the Node";
/// How long a watch is asked for, drawn anew each time: a fleet that lost its server together is not to stay
/// in step. Below the 240 s after which a large cloud's load balancer drops an idle connection without a word.
const SECONDS: RangeInclusive<u32> = 150..=220;
/// The server ends a watch by itself before; one that still is there then has lost its server.
const MARGIN: Duration = Duration::from_secs(15);

/// What a watch brings.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// The server took the watch: what comes next is news.
    Begun,
    Seen(Seen),
    /// The stream is over, in order or not; the next call goes on from where it was.
    Ended,
}

/// The Node, watched.
pub struct Watch {
    api: NodeApi,
    /// What was heard last; `None`: list first.
    version: Option<String>,
    stream: Option<Stream>,
}

struct Stream {
    lines: Lines,
    until: Instant,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Watch {
    pub(super) fn new(api: NodeApi) -> Self {
        Self { api, version: None, stream: None }
    }

    /// The next thing that is heard. After an error it goes on when it is called again: wait first.
    ///
    /// # Errors
    /// [`KubeError`].
    pub async fn next(&mut self) -> Result<Heard, KubeError> {
        let heard = self.step().await;
        match &heard {
            Ok(Heard::Begun | Heard::Seen(_)) => {}
            Ok(Heard::Ended) => self.stream = None,
            // `410 Gone` asks for a list, and after any other error a list shows that it is over.
            Err(_) => (self.version, self.stream) = (None, None),
        }
        heard
    }

    async fn step(&mut self) -> Result<Heard, KubeError> {
        let Some(version) = &self.version else {
            return self.list().await.map(Heard::Seen);
        };
        let Some(stream) = &mut self.stream else {
            let seconds = fastrand::u32(SECONDS);
            let until = Instant::now() + Duration::from_secs(seconds.into()) + MARGIN;
            let lines = self.api.events(WHAT, version, seconds).await?;
            self.stream = Some(Stream { lines, until });
            return Ok(Heard::Begun);
        };
        loop {
            let line = match timeout_at(stream.until, stream.lines.next()).await {
                Ok(Ok(Some(line))) => line,
                Ok(Ok(None)) => return Ok(Heard::Ended),
                // Whether the server is there shows in the next request.
                Ok(Err(error @ KubeError::Broken { .. })) => {
                    debug!("{}", chain(&error));
                    return Ok(Heard::Ended);
                }
                Ok(Err(error)) => return Err(error),
                Err(_elapsed) => {
                    debug!("the watch outlived its time: the server is lost");
                    return Ok(Heard::Ended);
                }
            };
            let seen =
                steps::done(Step::NodeSeen, "", || take(&self.api, &mut self.version, &line));
            if let Some(seen) = seen? {
                return Ok(Heard::Seen(seen));
            }
        }
    }

    async fn list(&mut self) -> Result<Seen, KubeError> {
        let list = self.api.list(WHAT).await?;
        self.version = Some(list.metadata.resource_version);
        let mut nodes = list.items.into_iter().flatten();
        let node = nodes.find(|node| node.metadata.name == self.api.name());
        Ok(node.map_or(Seen::Gone, |node| self.api.see(node)))
    }
}

/// What a line says of the Node; `None`: nothing.
fn take(
    api: &NodeApi,
    version: &mut Option<String>,
    line: &[u8],
) -> Result<Option<Seen>, KubeError> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let event = serde_json::from_slice(line)
        .map_err(|source| KubeError::NoAnswer { what: WHAT, source })?;
    let mut newer = |object: &Object| {
        let heard = &object.metadata.resource_version;
        if !heard.is_empty() {
            *version = Some(heard.clone());
        }
    };
    Ok(match event {
        Event::Added(node) | Event::Modified(node) if node.metadata.name == api.name() => {
            newer(&node);
            Some(api.see(node))
        }
        Event::Deleted(node) if node.metadata.name == api.name() => {
            newer(&node);
            Some(Seen::Gone)
        }
        Event::Added(other)
        | Event::Modified(other)
        | Event::Deleted(other)
        | Event::Bookmark(other) => {
            newer(&other);
            None
        }
        Event::Error(status) => {
            let refusal = Refusal::event(&status);
            return Err(KubeError::Refused { what: WHAT, refusal });
        }
    })
}
