//! Faults on demand, the same for every HTTP stand-in.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;

/// What a request asks for, as far as faults are limited to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Kubernetes: one object.
    Get,
    /// Kubernetes: a collection.
    List,
    /// Kubernetes: a stream of events.
    Watch,
    /// Kubernetes: a change.
    Patch,
    /// Nebraska: an Omaha POST.
    Omaha,
    /// Anything else.
    Other,
}

/// One way to fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// New connections are reset at once and established ones too. Limited to a verb: the
    /// connection that carries such a request is reset.
    Refuse,
    /// Connections stay open, but nothing is sent any more and all that arrives is swallowed.
    /// Those that went silent stay so when the fault is cleared.
    DropSilently,
    /// The request is taken and never answered.
    Hang,
    /// This HTTP status, with the server's usual error body.
    Status(u16),
    /// 429 with a `Retry-After` header in whole seconds.
    TooManyRequests {
        /// Rounded down to seconds.
        retry_after: Duration,
    },
    /// Kubernetes only: a list or watch is answered 410 as HTTP status.
    Gone,
    /// Kubernetes only: a watch is answered 200 with an ERROR event of code 410.
    GoneInStream,
    /// A redirect.
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: u16,
        /// The new address.
        location: String,
    },
    /// Something else altogether, such as a sign-in page.
    Reply {
        /// HTTP status.
        status: u16,
        /// Headers, `content-type` among them.
        headers: Vec<(String, String)>,
        /// The body as it is.
        body: Bytes,
    },
    /// The true answer, processed and announced whole, but the connection breaks after so many bytes.
    Truncate(usize),
    /// The true answer, processed and announced whole, but nothing comes after so many bytes.
    Stall(usize),
    /// 200 and so many bytes of white space before the true body.
    Huge(usize),
}

impl Fault {
    /// Only for requests of this verb.
    pub fn on(self, verb: Verb) -> Rule {
        Rule::from(self).on(verb)
    }

    /// Only so many times.
    pub fn times(self, count: u32) -> Rule {
        Rule::from(self).times(count)
    }

    /// Whether it can strike before a request is read.
    fn is_of_connection(&self) -> bool {
        matches!(self, Self::Refuse | Self::DropSilently)
    }
}

/// A fault with its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub(crate) fault: Fault,
    verb: Option<Verb>,
    /// So many that fit go unharmed first.
    spared: u32,
    remaining: Option<u32>,
}

impl From<Fault> for Rule {
    fn from(fault: Fault) -> Self {
        Self { fault, verb: None, spared: 0, remaining: None }
    }
}

impl Rule {
    /// Only for requests of this verb.
    pub fn on(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Only so many times, then the rule is gone.
    pub fn times(mut self, count: u32) -> Self {
        self.remaining = Some(count);
        self
    }

    /// Only after so many that fit.
    pub fn after(mut self, count: u32) -> Self {
        self.spared = count;
        self
    }

    /// Whether it concerns connections as such, not single requests.
    pub(crate) fn is_of_connection(&self) -> bool {
        self.verb.is_none() && self.fault.is_of_connection()
    }
}

/// The rules in force, oldest first; the first that fits strikes.
#[derive(Debug, Default)]
pub(crate) struct Plan(Mutex<VecDeque<Rule>>);

impl Plan {
    pub(crate) fn add(&self, rule: Rule) {
        self.0.lock().expect("no panic under lock").push_back(rule);
    }

    pub(crate) fn clear(&self) {
        self.0.lock().expect("no panic under lock").clear();
    }

    /// What happens to a new connection.
    pub(crate) fn at_accept(&self) -> Option<Fault> {
        self.strike(Rule::is_of_connection)
    }

    /// What happens to a request.
    pub(crate) fn at_request(&self, verb: Verb) -> Option<Fault> {
        self.strike(|rule| !rule.is_of_connection() && rule.verb.is_none_or(|v| v == verb))
    }

    fn strike(&self, fits: impl Fn(&Rule) -> bool) -> Option<Fault> {
        let mut rules = self.0.lock().expect("no panic under lock");
        rules.retain(|rule| rule.remaining != Some(0));
        let rule = rules.iter_mut().find(|rule| fits(rule))?;
        if let Some(left) = rule.spared.checked_sub(1) {
            rule.spared = left;
            return None;
        }
        rule.remaining = rule.remaining.map(|n| n - 1);
        Some(rule.fault.clone())
    }
}
