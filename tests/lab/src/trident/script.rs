//! How the next call of a method is to go.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tonic::Code;

use super::proto::v1::{
    FileLocation, Log, LogLevel, ServicingKind, TridentError, TridentErrorKind,
};

/// A structured error of tridentd.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    kind: TridentErrorKind,
    subkind: String,
    message: String,
    location: Option<(String, u32)>,
}

impl Fault {
    /// An error without a location.
    pub fn new(kind: TridentErrorKind, subkind: &str, message: &str) -> Self {
        Self { kind, subkind: subkind.to_owned(), message: message.to_owned(), location: None }
    }

    /// Says where in tridentd's source it was raised.
    #[must_use]
    pub fn at(mut self, path: &str, line: u32) -> Self {
        self.location = Some((path.to_owned(), line));
        self
    }

    pub(super) fn subkind(&self) -> &str {
        &self.subkind
    }

    pub(super) fn to_proto(&self) -> TridentError {
        TridentError {
            kind: self.kind.into(),
            subkind: self.subkind.clone(),
            message: self.message.clone(),
            error_message: format!("{}: {}", self.subkind, self.message),
            location: self.location.clone().map(|(path, line)| FileLocation { path, line }),
        }
    }
}

/// A log record for the stream.
#[derive(Clone, Debug)]
pub struct Record {
    level: LogLevel,
    message: String,
    target: String,
    module: String,
    location: (String, u32),
}

impl Record {
    /// A record of tridentd's own module.
    pub fn new(level: LogLevel, message: &str) -> Self {
        let module = "trident::engine".to_owned();
        let location = ("crates/trident/src/engine/mod.rs".to_owned(), 120);
        Self { level, message: message.to_owned(), target: module.clone(), module, location }
    }

    /// Sets target and module.
    #[must_use]
    pub fn from_module(mut self, target: &str, module: &str) -> Self {
        (self.target, self.module) = (target.to_owned(), module.to_owned());
        self
    }

    /// Sets the place in the source.
    #[must_use]
    pub fn at(mut self, path: &str, line: u32) -> Self {
        self.location = (path.to_owned(), line);
        self
    }

    pub(super) fn to_proto(&self) -> Log {
        let (path, line) = self.location.clone();
        Log {
            level: self.level.into(),
            message: self.message.clone(),
            module: self.module.clone(),
            target: self.target.clone(),
            location: Some(FileLocation { path, line }),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) enum Ending {
    /// As the state has it.
    #[default]
    Natural,
    /// Success with this kind, and no effect.
    Claim(ServicingKind),
    Fail(Option<Fault>),
    /// The stream ends without `Completed`, after the effect or without it.
    Cut {
        done: bool,
    },
    /// The stream breaks with a status, without effect.
    Break(Code, String),
    /// Not even a stream.
    Refuse(Code, String),
}

/// How one call goes; the default is quick, without logs, and as the state has it. The order is:
/// `Started`, the logs, the delay, the gate, the effect, the ending.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub(super) logs: Vec<(usize, Record)>,
    pub(super) delay: Duration,
    pub(super) gate: Option<Arc<Latch>>,
    pub(super) ending: Ending,
}

impl Script {
    /// As the state has it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Streams a record so many times.
    #[must_use]
    pub fn logs(mut self, count: usize, record: Record) -> Self {
        self.logs.push((count, record));
        self
    }

    /// Takes so long.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Ends in a failure with a structured error and without effect; a failed commit still forgets
    /// the armed update.
    #[must_use]
    pub fn fail(self, fault: Fault) -> Self {
        self.ending(Ending::Fail(Some(fault)))
    }

    /// Ends in a failure without a structured error.
    #[must_use]
    pub fn fail_bare(self) -> Self {
        self.ending(Ending::Fail(None))
    }

    /// Claims success of this kind, but changes nothing.
    #[must_use]
    pub fn claim(self, kind: ServicingKind) -> Self {
        self.ending(Ending::Claim(kind))
    }

    /// Ends the stream without `Completed`, after the work is done or with nothing done.
    #[must_use]
    pub fn cut(self, done: bool) -> Self {
        self.ending(Ending::Cut { done })
    }

    /// Breaks the stream with a gRPC status after the logs; nothing is done.
    #[must_use]
    pub fn break_with(self, code: Code, message: &str) -> Self {
        self.ending(Ending::Break(code, message.to_owned()))
    }

    /// Answers with a gRPC status and no stream.
    #[must_use]
    pub fn refuse(self, code: Code, message: &str) -> Self {
        self.ending(Ending::Refuse(code, message.to_owned()))
    }

    fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }
}

/// Holds a call until it is released or dropped.
#[derive(Debug)]
#[must_use = "a dropped gate is open"]
pub struct Gate(pub(super) Arc<Latch>);

impl Gate {
    /// Waits until the call has come to the gate.
    pub async fn reached(&self) {
        let permit = self.0.reached.acquire().await.expect("never closed");
        // Others may ask too.
        drop(permit);
    }

    /// Lets the call go on.
    pub fn release(self) {}
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.open.add_permits(1);
    }
}

/// The call's side of a gate.
#[derive(Debug)]
pub(super) struct Latch {
    reached: Semaphore,
    open: Semaphore,
}

impl Latch {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { reached: Semaphore::new(0), open: Semaphore::new(0) })
    }

    pub(super) async fn pass(&self) {
        self.reached.add_permits(1);
        self.open.acquire().await.expect("never closed").forget();
    }
}
