//! What this side logs.

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, SubscriberExt};

pub(crate) const OURS: &str = "trident_acl_agent::trident";
pub(crate) const THEIRS: &str = "tridentd";

/// One log record of ours.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) level: String,
    target: String,
    fields: Vec<(String, String)>,
}

impl Record {
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str())
    }
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.fields.push((field.name().to_owned(), format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name().to_owned(), value.to_owned()));
    }
}

pub(crate) struct Tell(UnboundedSender<Record>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Tell {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let (level, target) = (event.metadata().level(), event.metadata().target());
        let mut record =
            Record { level: level.to_string(), target: target.to_owned(), ..Record::default() };
        event.record(&mut record);
        // The test may have heard enough.
        let _ = self.0.send(record);
    }
}

/// What this thread logs from now on; target by prefix.
pub(crate) struct Heard {
    records: UnboundedReceiver<Record>,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Heard {
    pub(crate) fn listen() -> Heard {
        let (sender, records) = unbounded_channel();
        let subscriber = tracing_subscriber::registry().with(Tell(sender));
        Heard { records, _guard: tracing::subscriber::set_default(subscriber) }
    }

    pub(crate) async fn next(&mut self, target: &str) -> Record {
        loop {
            let record = self.records.recv().await.expect("the log goes on");
            if record.target.starts_with(target) {
                return record;
            }
        }
    }

    pub(crate) fn so_far(&mut self, target: &str) -> Vec<Record> {
        let mut records = self.all();
        records.retain(|record| record.target.starts_with(target));
        records
    }

    pub(crate) fn all(&mut self) -> Vec<Record> {
        std::iter::from_fn(|| self.records.try_recv().ok()).collect()
    }
}
