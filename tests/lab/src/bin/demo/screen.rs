//! Plain lines for a person; colour only on a terminal.

use std::future::Future;
use std::io::IsTerminal;
use std::pin::pin;
use std::time::{Duration, Instant};

/// Silence that is long enough to make a person wonder.
const SILENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Screen {
    started: Instant,
    colour: bool,
}

/// SGR codes.
const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const CYAN: &str = "36";

impl Screen {
    pub(crate) fn new() -> Self {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { started: Instant::now(), colour }
    }

    pub(crate) fn colour(&self) -> bool {
        self.colour
    }

    pub(crate) fn title(&self, text: &str) {
        println!("\n{}", self.paint(BOLD, &format!("== {text}")));
    }

    /// What the orchestrator does.
    pub(crate) fn command(&self, text: &str) {
        self.line(Instant::now(), &self.paint(CYAN, text));
    }

    pub(crate) fn note(&self, text: &str) {
        self.line(Instant::now(), text);
    }

    /// A status annotation as it was at that time.
    pub(crate) fn status(&self, at: Instant, key: &str, code: &str, text: &str) {
        let colour = match code {
            "InProgress" => YELLOW,
            "Success" => GREEN,
            _ => RED,
        };
        self.line(at, &format!("{key}  {}  {text}", self.paint(colour, code)));
    }

    /// Somebody else's words.
    pub(crate) fn quote(&self, text: &str) {
        text.lines().for_each(|line| println!("       | {line}"));
    }

    pub(crate) fn row(&self, text: &str) {
        println!("  {text}");
    }

    pub(crate) fn good(&self, text: &str) {
        println!("\n{}", self.paint(GREEN, text));
    }

    pub(crate) fn failed(&self, text: &str) {
        eprintln!("\n{}", self.paint(RED, &format!("demo: {text}")));
    }

    /// Waits, and says so now and then.
    pub(crate) async fn patiently<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        self.note(what);
        let started = Instant::now();
        let mut work = pin!(work);
        loop {
            // The work is only borrowed: it goes on in the next round.
            if let Ok(done) = tokio::time::timeout(SILENCE, &mut work).await {
                return done;
            }
            self.note(&self.paint(DIM, &format!("... {} s", started.elapsed().as_secs())));
        }
    }

    fn line(&self, at: Instant, text: &str) {
        let at = at.saturating_duration_since(self.started).as_secs_f32();
        println!("{} {text}", self.paint(DIM, &format!("{at:6.1}")));
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
