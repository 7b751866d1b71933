//! Routes requests: authenticate, authorize, answer.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use serde_json::json;
use tokio::sync::watch;

use super::answer::{Form, Refusal, head, json_response};
use super::auth::{Gate, User};
use super::patch;
use super::store::{Author, Store};
use super::watch::{Options, Start, WatchCut, body};
use crate::tls::faults::{Fault, Verb};
use crate::tls::serve::{Body, Call, Service, full};

const NODES: &str = "/api/v1/nodes";
/// The real server picks something between 30 and 60 minutes.
const DEFAULT_WATCH: Duration = Duration::from_secs(1800);

/// What wakes watches and waiting tests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bell {
    pub(super) changes: u64,
    pub(super) cuts: u64,
    pub(super) cut: WatchCut,
}

/// How a watch learns that its resourceVersion is too old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GoneAs {
    /// 200 and an ERROR event, as the real server's watch cache does.
    #[default]
    Event,
    /// HTTP 410.
    Status,
}

/// All that is known, shared by the handle, the server and the watches.
#[derive(Debug)]
pub(super) struct Brain {
    store: Mutex<Store>,
    pub(super) gate: Gate,
    pub(super) bell: watch::Sender<Bell>,
    pub(super) settings: Mutex<Settings>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) bookmark_interval: Duration,
    pub(super) gone_as: GoneAs,
}

impl Brain {
    pub(super) fn new(gate: Gate) -> Self {
        let settings =
            Settings { bookmark_interval: Duration::from_secs(60), gone_as: GoneAs::default() };
        Self {
            store: Mutex::new(Store::new()),
            gate,
            bell: watch::Sender::default(),
            settings: Mutex::new(settings),
        }
    }

    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().expect("no panic under lock")
    }

    /// Changes the store, then wakes everyone.
    pub(super) fn change<T>(&self, act: impl FnOnce(&mut Store) -> T) -> T {
        let result = act(&mut self.store());
        self.bell.send_modify(|bell| bell.changes += 1);
        result
    }

    pub(super) fn bookmark_interval(&self) -> Duration {
        self.settings().bookmark_interval
    }

    fn settings(&self) -> Settings {
        *self.settings.lock().expect("no panic under lock")
    }
}

/// The service behind the TLS front.
pub(super) struct Api(pub(super) Arc<Brain>);

impl Service for Api {
    fn verb(&self, head: &Parts) -> Verb {
        match (Target::of(head.uri.path()), head.method.as_str()) {
            (Target::Nodes, "GET") if wants_watch(&query(head)) => Verb::Watch,
            (Target::Nodes, "GET") => Verb::List,
            (Target::Node(_), "GET") => Verb::Get,
            (Target::Node(_), "PATCH") => Verb::Patch,
            _ => Verb::Other,
        }
    }

    fn arrived(&self, _call: &Call) {}

    fn respond(&self, call: &Call) -> Response<Body> {
        self.answer(call).unwrap_or_else(|refusal| refusal.response())
    }

    fn failure(&self, status: StatusCode, retry_after: Option<Duration>) -> Response<Body> {
        Refusal::on_demand(status, retry_after).response()
    }

    fn answered(&self, _record: usize, _status: StatusCode) {}
}

impl Api {
    fn answer(&self, call: &Call) -> Result<Response<Body>, Refusal> {
        let target = Target::of(call.head.uri.path());
        if target == Target::Health {
            return Ok(Response::new(full("ok")));
        }
        let user = self.0.gate.user(&call.head, &call.certs).ok_or_else(Refusal::unauthorized)?;
        match (target, &call.head.method) {
            (Target::Version, &Method::GET) => Ok(version()),
            (Target::Nodes, &Method::GET) => self.collection(call, &user),
            (Target::Node(name), &Method::GET) => self.get(call, &user, name),
            (Target::Node(name), &Method::PATCH) => self.patch(call, &user, name),
            (Target::Elsewhere, _) => Err(Refusal::no_resource()),
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    fn get(&self, call: &Call, user: &User, name: &str) -> Result<Response<Body>, Refusal> {
        authorize(user, "get", Some(name))?;
        let form = Form::of(&call.head.headers, false)?;
        let node = self.0.store().get(name).ok_or_else(|| Refusal::no_node(name))?;
        Ok(json_response(StatusCode::OK, &form.render(&node)))
    }

    fn patch(&self, call: &Call, user: &User, name: &str) -> Result<Response<Body>, Refusal> {
        let form = Form::of(&call.head.headers, false)?;
        if !user.is_admin() && user.own_node().is_none() {
            return Err(cannot(user, "patch", Some(name), ""));
        }
        let content_type = call.head.headers.get("content-type").and_then(|v| v.to_str().ok());
        let author = Author::Client(user.name.clone());
        let stored = self.0.change(|store| {
            let old = store.get(name).ok_or_else(|| Refusal::no_node(name))?;
            let new = patch::apply(&old, user, content_type, &call.body)?;
            Ok(store.replace(new, &author))
        })?;
        Ok(json_response(StatusCode::OK, &form.render(&stored)))
    }

    fn collection(&self, call: &Call, user: &User) -> Result<Response<Body>, Refusal> {
        let query = query(&call.head);
        let name = selected_name(query.get("fieldSelector").map(AsRef::as_ref))?;
        let watching = wants_watch(&query);
        authorize(user, if watching { "watch" } else { "list" }, name.as_deref())?;
        if call.fault == Some(Fault::Gone) {
            let oldest = self.0.store().version();
            return Err(Refusal::expired(version_of(&query)?.unwrap_or_default(), oldest));
        }
        if watching {
            return self.watch(call, &query, name);
        }
        if query.contains_key("sendInitialEvents") {
            let problem = "Forbidden: sendInitialEvents is forbidden for list";
            return Err(Refusal::invalid_option("sendInitialEvents", problem));
        }
        version_of(&query)?;
        let form = Form::of(&call.head.headers, true)?;
        let store = self.0.store();
        let list = form.render_list(store.version(), &store.list(name.as_deref()));
        Ok(json_response(StatusCode::OK, &list))
    }

    fn watch(
        &self,
        call: &Call,
        query: &Query<'_>,
        name: Option<String>,
    ) -> Result<Response<Body>, Refusal> {
        let form = Form::of(&call.head.headers, false)?;
        let start = self.start(call, query)?;
        let seconds = query.get("timeoutSeconds").and_then(|s| s.parse().ok());
        let timeout = seconds.filter(|s| *s > 0).map_or(DEFAULT_WATCH, Duration::from_secs);
        let bookmarks = is_true(query, "allowWatchBookmarks");
        let options = Options { name, form, start, bookmarks, timeout };
        let body = body(self.0.clone(), options);
        Ok(head(StatusCode::OK).body(body).expect("valid response"))
    }

    fn start(&self, call: &Call, query: &Query<'_>) -> Result<Start, Refusal> {
        let asked = version_of(query)?;
        let initial = initial_events(query)?;
        let oldest = self.0.store().oldest();
        if call.fault == Some(Fault::GoneInStream) {
            return Ok(Start::Gone(asked.unwrap_or_default()));
        }
        let gone_as = self.0.settings().gone_as;
        Ok(match (initial, asked) {
            (Some(true), _) => Start::State { marked: is_true(query, "allowWatchBookmarks") },
            (Some(false), None) => Start::Now,
            (None, None) => Start::State { marked: false },
            (_, Some(asked)) if asked >= oldest => Start::After(asked),
            (_, Some(asked)) if gone_as == GoneAs::Status => {
                return Err(Refusal::expired(asked, oldest));
            }
            (_, Some(asked)) => Start::Gone(asked),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target<'a> {
    Nodes,
    Node(&'a str),
    Version,
    Health,
    Elsewhere,
}

impl<'a> Target<'a> {
    fn of(path: &'a str) -> Self {
        match path {
            NODES => Self::Nodes,
            "/version" => Self::Version,
            "/healthz" | "/livez" | "/readyz" => Self::Health,
            _ => match path.strip_prefix(NODES).and_then(|rest| rest.strip_prefix('/')) {
                Some(name) if !name.is_empty() && !name.contains('/') => Self::Node(name),
                _ => Self::Elsewhere,
            },
        }
    }
}

type Query<'a> = HashMap<Cow<'a, str>, Cow<'a, str>>;

fn query(head: &Parts) -> Query<'_> {
    url::form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes()).collect()
}

fn is_true(query: &Query<'_>, key: &str) -> bool {
    query.get(key).is_some_and(|value| matches!(value.as_ref(), "true" | "1"))
}

fn wants_watch(query: &Query<'_>) -> bool {
    is_true(query, "watch")
}

/// The resourceVersion asked for; none and 0 both mean "any".
fn version_of(query: &Query<'_>) -> Result<Option<u64>, Refusal> {
    match query.get("resourceVersion").map(AsRef::as_ref) {
        None | Some("" | "0") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_not_a_number| {
            Refusal::bad_request(format!("resourceVersion: Invalid value: \"{text}\""))
        }),
    }
}

fn initial_events(query: &Query<'_>) -> Result<Option<bool>, Refusal> {
    let field = "resourceVersionMatch";
    let matching = query.get(field).map(AsRef::as_ref);
    if !query.contains_key("sendInitialEvents") {
        return match matching {
            None => Ok(None),
            Some(_) => Err(Refusal::invalid_option(
                field,
                "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )),
        };
    }
    match matching {
        Some("NotOlderThan") => Ok(Some(is_true(query, "sendInitialEvents"))),
        _ => Err(Refusal::invalid_option(
            field,
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )),
    }
}

/// The Node that a field selector narrows the collection to.
fn selected_name(selector: Option<&str>) -> Result<Option<String>, Refusal> {
    let mut name = None;
    for clause in selector.unwrap_or_default().split(',').filter(|clause| !clause.is_empty()) {
        let (field, value) = clause.split_once('=').unwrap_or((clause, ""));
        match (field, value.trim_start_matches('=')) {
            ("metadata.name", value) => name = Some(value.to_owned()),
            _ => {
                let message = format!("field label not supported: {}", field.trim_end_matches('!'));
                return Err(Refusal::bad_request(message));
            }
        }
    }
    Ok(name)
}

/// The node authorizer of 1.32 and later: a kubelet reads its own Node, by name.
fn authorize(user: &User, verb: &str, name: Option<&str>) -> Result<(), Refusal> {
    match (user.own_node(), name) {
        _ if user.is_admin() => Ok(()),
        (Some(own), Some(name)) if own == name => Ok(()),
        (Some(own), name) => {
            let what = name.map_or_else(|| "all nodes".to_owned(), |name| format!("'{name}'"));
            let why = format!("node '{own}' cannot read {what}, only its own Node object");
            Err(cannot(user, verb, name, &why))
        }
        (None, name) => Err(cannot(user, verb, name, "")),
    }
}

fn cannot(user: &User, verb: &str, name: Option<&str>, why: &str) -> Refusal {
    let mut text = format!(
        "User \"{}\" cannot {verb} resource \"nodes\" in API group \"\" at the cluster scope",
        user.name
    );
    if !why.is_empty() {
        text = format!("{text}: {why}");
    }
    // A list is a request for the collection, even with a field selector.
    Refusal::forbidden(name.filter(|_| matches!(verb, "get" | "patch")).unwrap_or_default(), &text)
}

fn version() -> Response<Body> {
    let version = json!({
        "major": "1", "minor": "33", "gitVersion": "v1.33.2", "gitCommit": "lab",
        "gitTreeState": "clean", "buildDate": "2025-06-17T18:32:14Z",
        "goVersion": "go1.24.4", "compiler": "gc", "platform": "linux/amd64",
    });
    json_response(StatusCode::OK, &version)
}
