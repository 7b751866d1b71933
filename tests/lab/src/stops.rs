//! Where the test build's processes say at which step they stand, and are told whether to go on.
//!
//! A process waits for its answer, so everything happens between two points that the test knows of: it can have
//! the process kill itself there, or leave it without an answer and cut the node's power.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::watch;

/// Beside tridentd's socket, which the node sees as `/run/trident/`.
const SOCKET: &str = "stop-points.sock";
/// Sent to the socket by ourselves when the last handle goes.
const END: &str = "end";

/// Before or after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    Before,
    After,
}

/// One point that a process has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The node's boot, counting from 1.
    pub boot: u32,
    /// Its number inside the node.
    pub pid: u32,
    /// `watcher`, `stage`, `commit`, ...
    pub who: String,
    pub step: String,
    /// What the step is about, with `*` for each id.
    pub of: String,
    pub side: Side,
}

/// What a process is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Go,
    /// Kill yourself.
    Kill,
    /// Nothing yet: asked again after each later point, when there is another rule, and when the test says so.
    Wait,
}

/// Given a point, and whether it is new or was told to wait before.
type Rule = Box<dyn FnMut(&Point, bool) -> Answer + Send>;

/// The lab's side of the switch; clones share it.
#[derive(Clone)]
pub struct Stops(Arc<Owner>);

struct Owner {
    shared: Arc<Shared>,
    socket: PathBuf,
}

#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Inner {
    boot: u32,
    rule: Option<Rule>,
    passed: Vec<Point>,
    waiting: Vec<Waiting>,
}

struct Waiting {
    point: Point,
    is_new: bool,
    process: UnixStream,
}

impl Stops {
    /// Listens in the directory that the node sees.
    pub fn listen(directory: &Path) -> Result<Self> {
        let socket = directory.join(SOCKET);
        let listener = UnixListener::bind(&socket)
            .with_context(|| format!("cannot bind {}", socket.display()))?;
        let shared = Arc::<Shared>::default();
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("lab-stops".into());
        thread.spawn(move || {
            let ended = |stream: UnixStream| serving.take(stream).unwrap_or(false);
            listener.incoming().flatten().any(ended)
        })?;
        Ok(Self(Arc::new(Owner { shared, socket })))
    }

    /// Points from now on are of this boot. What waited in an earlier one is gone.
    pub fn boot(&self, number: u32) {
        let mut inner = self.0.shared.lock();
        inner.boot = number;
        inner.waiting.clear();
    }

    /// Answers by this rule from now on; forgets what was passed before.
    pub fn rule(&self, rule: impl FnMut(&Point, bool) -> Answer + Send + 'static) {
        let mut inner = self.0.shared.lock();
        inner.rule = Some(Box::new(rule));
        inner.passed.clear();
        inner.ask_again();
    }

    /// Lets everything pass from now on.
    pub fn let_all_pass(&self) {
        self.rule(|_, _| Answer::Go);
    }

    /// Those who wait: the rule may have another answer by now.
    pub fn ask_again(&self) {
        self.0.shared.lock().ask_again();
    }

    /// Every point since the rule was set, in order.
    pub fn passed(&self) -> Vec<Point> {
        self.0.shared.lock().passed.clone()
    }

    /// Told of each point.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.0.shared.changed.subscribe()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = UnixStream::connect(&self.socket).and_then(|mut own| writeln!(own, "{END}"));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no panic under the lock")
    }

    /// Answers a process. Whether this was the end of all.
    fn take(&self, stream: UnixStream) -> Result<bool> {
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        let line = line.trim_end_matches('\n');
        if line == END {
            return Ok(true);
        }
        let mut inner = self.lock();
        let point = parse(line, inner.boot).with_context(|| format!("odd: {line}"))?;
        inner.passed.push(point.clone());
        // Asked before those that may wait for it.
        inner.waiting.insert(0, Waiting { point, is_new: true, process: stream });
        inner.ask_again();
        drop(inner);
        self.changed.send_replace(());
        Ok(false)
    }
}

impl Inner {
    fn ask_again(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        for Waiting { point, is_new, mut process } in waiting {
            let answer = self.rule.as_mut().map_or(Answer::Go, |rule| rule(&point, is_new));
            // A process may be gone: then nobody waits.
            let _ = match answer {
                Answer::Go => process.write_all(b"g"),
                Answer::Kill => process.write_all(b"k"),
                Answer::Wait => {
                    self.waiting.push(Waiting { point, is_new: false, process });
                    Ok(())
                }
            };
        }
    }
}

fn parse(line: &str, boot: u32) -> Option<Point> {
    let mut parts = line.split('\t');
    let pid = parts.next()?.parse().ok()?;
    let (who, step) = (parts.next()?.to_owned(), parts.next()?.to_owned());
    let of = without_ids(parts.next()?);
    let side = match parts.next()? {
        "before" => Side::Before,
        "after" => Side::After,
        _ => return None,
    };
    Some(Point { boot, pid, who, step, of, side })
}

/// Operation ids differ from run to run.
fn without_ids(text: &str) -> String {
    let mut rest = text.to_owned();
    let mut at = 0;
    while let Some(candidate) = rest.get(at..at + 36) {
        if uuid::Uuid::try_parse(candidate).is_ok() {
            rest.replace_range(at..at + 36, "*");
        }
        at += 1;
        while !rest.is_char_boundary(at) {
            at += 1;
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_read_and_its_ids_are_taken_out() {
        let line = "7\twatcher\tsystemd.StartUnit\tstarting trident-acl-agent-stage-\
            c9d6f0a2-3b41-4e8d-9f27-1a5b6c7d8e90.service\tbefore";
        let point = parse(line, 3).expect("a point");
        assert_eq!((point.boot, point.pid, point.side), (3, 7, Side::Before));
        assert_eq!(point.of, "starting trident-acl-agent-stage-*.service");
        assert!(parse("7\twatcher", 1).is_none());
    }

    #[test]
    fn a_process_waits_until_a_rule_lets_it_go() -> Result<()> {
        use std::io::Read;
        let directory = tempfile::tempdir()?;
        let stops = Stops::listen(directory.path())?;
        stops.rule(|_, _| Answer::Wait);
        let mut process = UnixStream::connect(directory.path().join(SOCKET))?;
        process.set_read_timeout(Some(Duration::from_millis(100)))?;
        writeln!(process, "1\tstage\tfile.write\tstate.json\tafter")?;
        let mut answer = [0];
        assert!(process.read(&mut answer).is_err(), "it was to wait");
        stops.rule(|_, is_new| if is_new { Answer::Go } else { Answer::Kill });
        process.set_read_timeout(Some(Duration::from_secs(10)))?;
        process.read_exact(&mut answer)?;
        assert_eq!(&answer, b"k");
        Ok(())
    }
}
