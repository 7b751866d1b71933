//! Never a busy loop, whatever the API server does; and it goes on when that is over.

use anyhow::{anyhow, ensure};
use tokio::runtime::Builder;
use tokio::time::sleep;
use trident_lab::kube::{Fault, Verb};

use super::*;
use crate::kubernetes::Seen;

/// Of the paused clock.
pub(super) const OUTAGE: Duration = Duration::from_secs(10 * 60);
/// Requests in that time: three for each attempt, as the waits grow to 30 seconds and more.
const MOST: usize = 90;

pub(super) fn reply(status: u16, body: &'static str, headers: &[(&str, &str)]) -> Fault {
    let headers = headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Fault::Reply { status, headers, body: body.into() }
}

/// Name, fault, and how many requests it may at most draw in that time.
pub(super) type Case = (&'static str, Fault, usize);

pub(super) fn faults() -> Vec<Case> {
    let json = [("content-type", "application/json")];
    vec![
        ("401", Fault::Status(401), MOST),
        ("403", Fault::Status(403), MOST),
        ("404 of something else", reply(404, "<html>", &[]), MOST),
        ("409", Fault::Status(409), MOST),
        ("422", Fault::Status(422), MOST),
        ("429", Fault::Status(429), MOST),
        (
            "429 with Retry-After",
            Fault::TooManyRequests { retry_after: Duration::from_secs(100) },
            25,
        ),
        (
            "429 in plain text with Retry-After",
            reply(429, "Too many requests", &[("retry-after", "100")]),
            25,
        ),
        ("429 with a vast Retry-After", reply(429, "", &[("retry-after", "99999999999")]), 12),
        (
            "429 with a Retry-After beyond any number",
            reply(429, "", &[("retry-after", "999999999999999999999999")]),
            MOST,
        ),
        ("429 with a negative Retry-After", reply(429, "", &[("retry-after", "-1")]), MOST),
        (
            "429 with a date",
            reply(429, "", &[("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT")]),
            MOST,
        ),
        ("401 with Retry-After", reply(401, "", &[("retry-after", "100")]), 25),
        ("403 with Retry-After", reply(403, "", &[("retry-after", "100")]), 25),
        ("500", Fault::Status(500), MOST),
        ("502 of a load balancer", reply(502, "<html>bad gateway</html>", &[]), MOST),
        ("503", Fault::Status(503), MOST),
        ("504", Fault::Status(504), MOST),
        ("410", Fault::Status(410), MOST),
        ("reset", Fault::Refuse, MOST),
        ("no answer", Fault::Hang, MOST),
        ("swallowed", Fault::DropSilently, MOST),
        ("cut in the body", Fault::Truncate(40), MOST),
        ("the body stops", Fault::Stall(40), MOST),
        ("an endless body", Fault::Huge(8 * 1024 * 1024), MOST),
        (
            "a redirect",
            Fault::Redirect { status: 302, location: "https://login.test/".into() },
            MOST,
        ),
        (
            "a sign-in page",
            reply(200, "<html>sign in</html>", &[("content-type", "text/html")]),
            MOST,
        ),
        ("nothing in it", reply(200, "", &json), MOST),
        ("an empty object", reply(200, "{}", &json), MOST),
        ("empty lines", reply(200, "\n\n\n", &json), MOST),
        ("garbage", reply(200, "{\"type\":\"ADDED\",\"object\":7}\n", &json), MOST),
        ("an unknown event", reply(200, "{\"type\":\"RUN\",\"object\":{}}\n", &json), MOST),
    ]
}

/// What the status line said during it.
async fn outage(name: &str, fault: Fault, verb: Verb, most: usize) -> Result<Option<String>> {
    let (cluster, log) = (Cluster::new()?, Log::new());
    cluster.api.inject(fault.on(verb));
    let mut fed = cluster.feed(&[])?;
    tokio::select! {
        () = sleep(OUTAGE) => {}
        // A busy loop would never let the clock go on.
        _ = cluster.api.wait_for_requests(AMPLE, |requests| requests.len() > most) => {}
    }
    let requests = cluster.api.requests();
    let struck = requests.iter().filter(|request| request.verb == verb).count();
    ensure!(struck >= 2, "{name} on {verb:?}: it gave up after {struck}");
    ensure!(requests.len() <= most, "{name} on {verb:?}: {} requests", requests.len());
    let trouble = fed.news.borrow().trouble.clone();
    cluster.api.clear_faults();
    cluster.ask("new");
    let news = fed.until("it goes on", |news| asked(news) && news.trouble.is_none()).await;
    news.map_err(|error| error.context(format!("{name} on {verb:?}: {trouble:?}")))?;
    let said = log.lines();
    ensure!(said.len() <= 3, "{name} on {verb:?} fills the journal: {said:#?}");
    Ok(trouble)
}

fn asked(news: &News) -> bool {
    match &news.seen {
        Seen::Node(node) => node.annotations.get(REQUEST).is_some_and(|text| text == "new"),
        Seen::Unknown | Seen::Gone => false,
    }
}

/// Each case in a thread of its own, with a clock of its own, as they mostly sleep: what each came to.
pub(super) fn side_by_side<T: Send, F: Future<Output = Result<T>>>(
    cases: Vec<Case>,
    run: impl Fn(Case) -> F + Sync,
) -> Result<Vec<T>> {
    let alone = |case| {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build()?;
        runtime.block_on(run(case))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = cases.into_iter().map(|case| scope.spawn(|| alone(case))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_panic| anyhow!("it panicked"))?)
            .collect()
    })
}

/// Name and trouble of each.
fn outages(faults: Vec<Case>, verb: Verb) -> Result<Vec<(&'static str, String)>> {
    side_by_side(faults, |(name, fault, most)| async move {
        Ok((name, outage(name, fault, verb, most).await?.unwrap_or_default()))
    })
}

#[test]
fn of_the_first_read() -> Result<()> {
    outages(faults(), Verb::Get).map(drop)
}

/// It goes the way of the first read; one of each kind.
#[test]
fn of_the_list() -> Result<()> {
    let kinds = [
        "401",
        "403",
        "429 with Retry-After",
        "500",
        "no answer",
        "the body stops",
        "nothing in it",
    ];
    let faults = faults().into_iter().filter(|(name, ..)| kinds.contains(name)).collect();
    outages(faults, Verb::List).map(drop)
}

#[test]
fn of_the_watch() -> Result<()> {
    let gone =
        [("410 as status", Fault::Gone, MOST), ("410 in the stream", Fault::GoneInStream, MOST)];
    for (name, trouble) in outages(faults().into_iter().chain(gone).collect(), Verb::Watch)? {
        let said = match name {
            "nothing in it" | "a sign-in page" => "each watch ends at once",
            "an endless body" => "the answer is larger than",
            "no answer" => "no answer within 15s",
            _ => "",
        };
        ensure!(trouble.contains(said), "{name}: {trouble}");
    }
    Ok(())
}
