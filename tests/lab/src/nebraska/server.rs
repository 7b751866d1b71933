//! Routes requests into the fleet and keeps what came.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};

use super::fleet::{Check, Fleet};
use super::instance::DropReason;
use super::request::{self, AppRequest, OmahaRequest};
use super::response::{AppAnswer, PROLOGUE, render};
use crate::tls::faults::Verb;
use crate::tls::serve::{Body, Call, Service, full};

/// An app that no client asked about.
const FOREIGN_APP: &str = "e96281a6-d1af-4bde-9a0a-97b76e56dc57";

/// When an answer sets the affinity cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cookies {
    /// Never.
    #[default]
    Off,
    /// When the request has none, as an ingress does.
    WhenMissing,
    /// On every answer, each time another.
    Always,
}

/// How answers look, whatever they say.
#[derive(Clone, Debug, Default)]
pub(super) struct Style {
    pub(super) cookies: Cookies,
    pub(super) foreign_app_first: bool,
    pub(super) raw: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) fleet: Fleet,
    pub(super) requests: Vec<OmahaRequest>,
    pub(super) cookies_set: Vec<String>,
    pub(super) style: Style,
}

/// The service behind the TLS front.
#[derive(Debug, Default)]
pub(super) struct Server(pub(super) Arc<Mutex<World>>);

impl Server {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no panic under lock")
    }
}

impl Service for Server {
    fn verb(&self, head: &Parts) -> Verb {
        match is_update(head) && head.method == Method::POST {
            true => Verb::Omaha,
            false => Verb::Other,
        }
    }

    fn arrived(&self, call: &Call) {
        if self.verb(&call.head) != Verb::Omaha {
            return;
        }
        let Ok(parsed) = request::parse(&call.body) else {
            return;
        };
        self.world().requests.push(OmahaRequest {
            at: Instant::now(),
            record: call.record,
            cookie: header(&call.head, "cookie"),
            raw: String::from_utf8_lossy(&call.body).into_owned(),
            http_status: None,
            processed: false,
            attributes: parsed.attributes,
            os: parsed.os,
            apps: parsed.apps,
        });
    }

    fn respond(&self, call: &Call) -> Response<Body> {
        match (is_update(&call.head), &call.head.method) {
            (true, &Method::POST) => self.world().update(call),
            (true, _) => plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"),
            (false, _) => plain(StatusCode::NOT_FOUND, "Not Found"),
        }
    }

    fn failure(&self, status: StatusCode, retry_after: Option<Duration>) -> Response<Body> {
        let mut response = plain(status, status.canonical_reason().unwrap_or("failed"));
        if let Some(wait) = retry_after {
            response.headers_mut().insert("retry-after", wait.as_secs().into());
        }
        response
    }

    fn answered(&self, record: usize, status: StatusCode) {
        let mut world = self.world();
        if let Some(request) = world.requests.iter_mut().rfind(|r| r.record == record) {
            request.http_status = Some(status.as_u16());
        }
    }
}

impl World {
    fn update(&mut self, call: &Call) -> Response<Body> {
        let request = self.requests.iter_mut().rfind(|request| request.record == call.record);
        let body = match request {
            None => PROLOGUE.to_owned(),
            Some(request) => {
                request.processed = true;
                let request = request.clone();
                self.answer(&request)
            }
        };
        let body = self.style.raw.clone().unwrap_or(body);
        let mut response = Response::builder()
            .header("content-type", "text/xml")
            .header("content-length", body.len());
        if let Some(cookie) = self.cookie(call) {
            response = response.header("set-cookie", cookie);
        }
        response.body(full(body)).expect("valid response")
    }

    fn answer(&mut self, request: &OmahaRequest) -> String {
        let mut answers: Vec<AppAnswer> = vec![];
        if self.style.foreign_app_first {
            answers.push(foreign());
        }
        for app in &request.apps {
            answers.push(self.app(app, request.os_arch()));
        }
        render(&answers)
    }

    /// Events first, then the ping, then the check, as in the real server.
    fn app(&mut self, app: &AppRequest, os_arch: Option<&str>) -> AppAnswer {
        let mut answer = AppAnswer {
            app_id: app.app_id().to_owned(),
            status: "ok".to_owned(),
            ..AppAnswer::default()
        };
        let Some(group) = self.fleet.group_of(app, os_arch) else {
            self.fleet.drop_events(app, DropReason::UnknownGroup);
            answer.status = "error-unknownApplicationOrGroup".to_owned();
            return answer;
        };
        for event in &app.events {
            self.fleet.event(app, &group, event);
        }
        answer.events = app.events.len();
        if app.ping.is_some() {
            // The real server only logs a registration that fails here.
            let _ = self.fleet.register(app);
            answer.ping = true;
        }
        if app.update_check.is_some() {
            let check = self.fleet.check(app, &group);
            if let Check::Refused(status) = &check {
                answer.status.clone_from(status);
            }
            answer.check = Some(check);
        }
        answer
    }

    fn cookie(&mut self, call: &Call) -> Option<String> {
        let wanted = match self.style.cookies {
            Cookies::Off => false,
            Cookies::WhenMissing => !call.head.headers.contains_key("cookie"),
            Cookies::Always => true,
        };
        wanted.then(|| {
            let pair = format!("nebraska-affinity={}", uuid::Uuid::new_v4().simple());
            self.cookies_set.push(pair.clone());
            format!("{pair}; Path=/; Secure; HttpOnly")
        })
    }
}

fn foreign() -> AppAnswer {
    AppAnswer {
        app_id: FOREIGN_APP.to_owned(),
        status: "ok".to_owned(),
        check: Some(Check::NoUpdate),
        ..AppAnswer::default()
    }
}

fn is_update(head: &Parts) -> bool {
    matches!(head.uri.path(), "/v1/update" | "/v1/update/")
}

fn header(head: &Parts, name: &str) -> Option<String> {
    head.headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn plain(status: StatusCode, message: &str) -> Response<Body> {
    let body = format!("{{\"message\":\"{message}\"}}\n");
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .header("content-length", body.len())
        .body(full(body))
        .expect("valid response")
}
