//! A watch: newline-delimited events, until its time is over or it is cut.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::answer::{Form, Refusal};
use super::server::{Bell, Brain};
use super::store::EventKind;
use crate::tls::serve::{Body, broken_off};

/// How current watches are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchCut {
    /// As when the server's time is over: the stream ends properly.
    #[default]
    Clean,
    /// The connection breaks between two events.
    Abrupt,
    /// The connection breaks in the middle of an event.
    MidLine,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// With an ADDED event for what is there; then the marking bookmark, if asked for.
    State { marked: bool },
    /// With what happens from now on.
    Now,
    /// After a resourceVersion.
    After(u64),
    /// With an ERROR event, and that is all.
    Gone(u64),
}

/// What a watch was asked for.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// The only Node of interest.
    pub(super) name: Option<String>,
    pub(super) form: Form,
    pub(super) start: Start,
    pub(super) bookmarks: bool,
    pub(super) timeout: Duration,
}

/// The body of a watch's answer.
pub(super) fn body(brain: Arc<Brain>, options: Options) -> Body {
    let feed = Feed::new(brain, options);
    let frames = stream::unfold(feed, async |mut feed| {
        let line = feed.next().await?;
        Some((line.map(Frame::data), feed))
    });
    BodyExt::boxed_unsync(StreamBody::new(frames))
}

struct Feed {
    brain: Arc<Brain>,
    options: Options,
    bell: watch::Receiver<Bell>,
    cuts_seen: u64,
    cursor: u64,
    pending: VecDeque<Bytes>,
    end: Option<WatchCut>,
    deadline: Instant,
    next_bookmark: Instant,
}

impl Feed {
    fn new(brain: Arc<Brain>, options: Options) -> Self {
        let bell = brain.bell.subscribe();
        let cuts_seen = bell.borrow().cuts;
        let now = Instant::now();
        let mut feed = Self {
            bell,
            cuts_seen,
            cursor: 0,
            pending: VecDeque::new(),
            end: None,
            deadline: now + options.timeout,
            next_bookmark: now + brain.bookmark_interval(),
            brain,
            options,
        };
        feed.begin();
        feed
    }

    fn begin(&mut self) {
        let brain = self.brain.clone();
        let store = brain.store();
        self.cursor = store.version();
        match self.options.start {
            Start::Now => {}
            Start::After(version) => self.cursor = version,
            Start::Gone(asked) => {
                self.push("ERROR", &Refusal::expired(asked, store.oldest()).status());
                self.end = Some(WatchCut::Clean);
            }
            Start::State { marked } => {
                for object in store.list(self.options.name.as_deref()) {
                    self.push(EventKind::Added.name(), &self.options.form.render(&object));
                }
                if marked {
                    self.push("BOOKMARK", &self.options.form.bookmark(self.cursor, true));
                }
            }
        }
    }

    /// The next piece of the stream.
    async fn next(&mut self) -> Option<Result<Bytes, io::Error>> {
        loop {
            if let Some(line) = self.pending.pop_front() {
                return Some(Ok(line));
            }
            match self.end {
                Some(WatchCut::Clean) => return None,
                Some(_) => {
                    self.end = Some(WatchCut::Clean);
                    return Some(Err(broken_off().await));
                }
                None => {}
            }
            let bell = *self.bell.borrow_and_update();
            if bell.cuts == self.cuts_seen {
                self.collect();
            } else {
                self.cut(bell.cut);
                continue;
            }
            if self.pending.is_empty() {
                self.sleep().await;
            }
        }
    }

    /// Waits for a change, a bookmark's time or the end; each is looked at again afterwards.
    async fn sleep(&mut self) {
        tokio::select! {
            // The sender lives as long as the brain, which this feed holds.
            _ = self.bell.changed() => {}
            () = tokio::time::sleep_until(self.deadline) => self.end = Some(WatchCut::Clean),
            () = tokio::time::sleep_until(self.next_bookmark), if self.options.bookmarks => {
                self.next_bookmark = Instant::now() + self.brain.bookmark_interval();
                self.push("BOOKMARK", &self.options.form.bookmark(self.cursor, false));
            }
        }
    }

    fn collect(&mut self) {
        let brain = self.brain.clone();
        let store = brain.store();
        for event in store.since(self.cursor, self.options.name.as_deref()) {
            self.push(event.kind.name(), &self.options.form.render(&event.object));
        }
        self.cursor = self.cursor.max(store.version());
    }

    fn cut(&mut self, cut: WatchCut) {
        self.end = Some(cut);
        if cut == WatchCut::MidLine {
            let objects = self.brain.store().list(self.options.name.as_deref());
            let object = objects.first().map_or(Value::Null, |o| self.options.form.render(o));
            let line = line(EventKind::Modified.name(), &object);
            self.pending.push_back(line.slice(..line.len() / 2));
        }
    }

    fn push(&mut self, kind: &str, object: &Value) {
        self.pending.push_back(line(kind, object));
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    let mut line = json!({"type": kind, "object": object}).to_string();
    line.push('\n');
    line.into()
}
