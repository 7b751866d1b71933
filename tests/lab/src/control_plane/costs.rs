use std::collections::BTreeMap;
use std::ops::Sub;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};

use super::ControlPlane;

/// What Nodes have cost the API server so far, or between two such moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// Requests for Nodes by verb, by the server's own count. A watch counts when it ends.
    pub requests: BTreeMap<String, u64>,
    /// Bytes of the answers to them but watches.
    pub answers: u64,
    /// Events of watches and their bytes, those of the server's own informer included.
    pub events: u64,
    pub event_bytes: u64,
    /// Bytes on the agents' connections, TLS included, to the server and back.
    pub wire: (u64, u64),
}

impl ControlPlane {
    /// Reads the server's metrics.
    pub fn costs(&self) -> Result<Costs> {
        let text = self.admin.expect(&["get", "--raw", "/metrics"])?;
        let traffic = &self.servers.traffic;
        let read = |bytes: &std::sync::atomic::AtomicU64| bytes.load(Ordering::Relaxed);
        let wire = (read(&traffic.asked), read(&traffic.answered));
        let mut costs = Costs { wire, ..Costs::default() };
        for line in text.lines().filter(|line| line.contains("group=\"\",resource=\"nodes\"")) {
            costs.add(line).with_context(|| line.to_owned())?;
        }
        Ok(costs)
    }
}

impl Costs {
    fn add(&mut self, line: &str) -> Result<()> {
        let (name, rest) = line.split_once('{').context("no labels")?;
        let (labels, value) = rest.rsplit_once("} ").context("no value")?;
        let counter = match name {
            "apiserver_request_total" => {
                let verb = labels.split("verb=\"").nth(1).context("no verb")?;
                let verb = verb.split('"').next().unwrap_or_default();
                self.requests.entry(verb.to_owned()).or_default()
            }
            "apiserver_response_sizes_sum" => &mut self.answers,
            "apiserver_watch_events_total" => &mut self.events,
            "apiserver_watch_events_sizes_sum" => &mut self.event_bytes,
            _ => return Ok(()),
        };
        // Large ones are written as 1.234e+06.
        *counter += format!("{:.0}", value.parse::<f64>()?).parse::<u64>()?;
        Ok(())
    }

    /// How many requests of a verb.
    pub fn count(&self, verb: &str) -> u64 {
        self.requests.get(verb).copied().unwrap_or_default()
    }
}

/// What both have in common goes: the rest is what the one has beyond the other.
impl Sub<&Costs> for Costs {
    type Output = Costs;

    fn sub(mut self, before: &Costs) -> Costs {
        for (verb, count) in &before.requests {
            let now = self.requests.entry(verb.clone()).or_default();
            *now = now.saturating_sub(*count);
        }
        self.requests.retain(|_, count| *count > 0);
        Costs {
            requests: self.requests,
            answers: self.answers.saturating_sub(before.answers),
            events: self.events.saturating_sub(before.events),
            event_bytes: self.event_bytes.saturating_sub(before.event_bytes),
            wire: (
                self.wire.0.saturating_sub(before.wire.0),
                self.wire.1.saturating_sub(before.wire.1),
            ),
        }
    }
}
