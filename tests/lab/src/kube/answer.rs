//! What goes out: Status objects, and an object as the `Accept` header wants it.

use std::sync::Arc;
use std::time::Duration;

use hyper::http::HeaderMap;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use crate::tls::serve::{Body, full};

/// A refusal, ready to be sent as a `Status` object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Value,
}

impl Refusal {
    pub(super) fn new(code: StatusCode, reason: &'static str, message: String) -> Self {
        Self { code, reason, message, details: Value::Null }
    }

    fn details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized".to_owned())
    }

    /// `name` is empty for a collection.
    pub(super) fn forbidden(name: &str, why: &str) -> Self {
        let (subject, details) = match name {
            "" => ("nodes".to_owned(), json!({"kind": "nodes"})),
            name => (format!("nodes \"{name}\""), json!({"name": name, "kind": "nodes"})),
        };
        let message = format!("{subject} is forbidden: {why}");
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).details(details)
    }

    pub(super) fn no_node(name: &str) -> Self {
        let message = format!("nodes \"{name}\" not found");
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
            .details(json!({"name": name, "kind": "nodes"}))
    }

    pub(super) fn no_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, "NotFound", message.to_owned()).details(json!({}))
    }

    pub(super) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message.to_owned())
            .details(json!({}))
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message.into())
    }

    pub(super) fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message.into())
    }

    pub(super) fn expired(asked: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {asked} ({oldest})");
        Self::new(StatusCode::GONE, "Expired", message)
    }

    pub(super) fn conflict(name: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on nodes \"{name}\": the object has been modified; \
             please apply your changes to the latest version and try again"
        );
        Self::new(StatusCode::CONFLICT, "Conflict", message)
            .details(json!({"name": name, "kind": "nodes"}))
    }

    /// `field` and `problem` as in `metadata.annotations` and `Too long: …`.
    pub(super) fn invalid(name: &str, reason: &str, field: &str, problem: &str) -> Self {
        let message = format!("Node \"{name}\" is invalid: {field}: {problem}");
        let cause = json!({"reason": reason, "message": problem, "field": field});
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
            .details(json!({"name": name, "kind": "Node", "causes": [cause]}))
    }

    /// What the real server says of a watch or list option that makes no sense.
    pub(super) fn invalid_option(field: &str, problem: &str) -> Self {
        let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {field}: {problem}");
        let cause = json!({"reason": "FieldValueForbidden", "message": problem, "field": field});
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
            .details(json!({"group": "meta.k8s.io", "kind": "ListOptions", "causes": [cause]}))
    }

    /// What the real server says of a patch whose outcome is no Node.
    pub(super) fn invalid_patch(problem: &str) -> Self {
        let message = format!(" \"\" is invalid: patch: Invalid value: {problem}");
        let cause = json!({"reason": "FieldValueInvalid", "message": problem, "field": "patch"});
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
            .details(json!({"causes": [cause]}))
    }

    /// An answer that a test asked for.
    pub(super) fn on_demand(code: StatusCode, retry_after: Option<Duration>) -> Self {
        let (reason, message) = match code.as_u16() {
            401 => return Self::unauthorized(),
            403 => return Self::forbidden("", "refused on demand"),
            429 => ("TooManyRequests", "Too many requests, please try again later."),
            500 => ("InternalError", "Internal error occurred: etcdserver: request timed out"),
            503 => ("ServiceUnavailable", "apiserver not ready"),
            504 => ("Timeout", "Timeout: request did not complete within the allotted timeout"),
            _ => ("", "refused on demand"),
        };
        let details = match retry_after {
            Some(wait) => json!({"retryAfterSeconds": wait.as_secs()}),
            None => Value::Null,
        };
        Self::new(code, reason, message.to_owned()).details(details)
    }

    /// The `Status` object.
    pub(super) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code.as_u16(),
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }

    pub(super) fn response(&self) -> Response<Body> {
        let mut response = json_response(self.code, &self.status());
        if let Some(seconds) = self.details.get("retryAfterSeconds") {
            let value = seconds.to_string().parse().expect("digits");
            response.headers_mut().insert("retry-after", value);
        }
        response
    }
}

/// A whole JSON answer.
pub(super) fn json_response(code: StatusCode, body: &Value) -> Response<Body> {
    let mut bytes = serde_json::to_vec(body).expect("a Value serializes");
    bytes.push(b'\n');
    head(code).header("content-length", bytes.len()).body(full(bytes)).expect("valid response")
}

/// The start of every answer.
pub(super) fn head(code: StatusCode) -> hyper::http::response::Builder {
    Response::builder()
        .status(code)
        .header("audit-id", uuid::Uuid::new_v4().to_string())
        .header("cache-control", "no-cache, private")
        .header("content-type", "application/json")
}

/// How the client wants objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    Metadata,
}

impl Form {
    /// Reads `Accept`; the first media range that can be served wins, as in the real server.
    pub(super) fn of(headers: &HeaderMap, list: bool) -> Result<Self, Refusal> {
        let accept = headers.get("accept").and_then(|v| v.to_str().ok()).unwrap_or("*/*");
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let json = matches!(parts.next(), Some("application/json" | "application/*" | "*/*"));
            let parameters: Vec<_> = parts.filter_map(|p| p.split_once('=')).collect();
            let get = |key| parameters.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
            match (json, get("as"), get("g"), get("v")) {
                (false, ..) => {}
                (true, None, ..) => return Ok(Self::Whole),
                (true, Some(kind), Some("meta.k8s.io"), Some("v1")) => {
                    return Self::partial(kind, list);
                }
                (true, Some(_), ..) => {}
            }
        }
        Err(Refusal::not_acceptable(
            "only the following media types are accepted: application/json",
        ))
    }

    fn partial(kind: &str, list: bool) -> Result<Self, Refusal> {
        match (kind, list) {
            ("PartialObjectMetadata", false) | ("PartialObjectMetadataList", true) => {
                Ok(Self::Metadata)
            }
            ("PartialObjectMetadata", true) => Err(Refusal::not_acceptable(
                "you requested PartialObjectMetadata, but the requested object is a list",
            )),
            ("PartialObjectMetadataList", false) => Err(Refusal::not_acceptable(
                "you requested PartialObjectMetadataList, but the requested object is not a list",
            )),
            _ => Err(Refusal::not_acceptable(format!("no conversion to {kind}"))),
        }
    }

    /// An object in this form.
    pub(super) fn render(self, object: &Value) -> Value {
        match self {
            Self::Whole => object.clone(),
            Self::Metadata => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": object["metadata"],
            }),
        }
    }

    /// A collection in this form. Items of a typed list carry no kind of their own.
    pub(super) fn render_list(self, version: u64, objects: &[Arc<Value>]) -> Value {
        let mut items: Vec<Value> = objects.iter().map(|object| self.render(object)).collect();
        if self == Self::Whole {
            for item in items.iter_mut().filter_map(Value::as_object_mut) {
                item.remove("kind");
                item.remove("apiVersion");
            }
        }
        let (kind, api_version) = match self {
            Self::Whole => ("NodeList", "v1"),
            Self::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1"),
        };
        json!({
            "kind": kind,
            "apiVersion": api_version,
            "metadata": {"resourceVersion": version.to_string()},
            "items": items,
        })
    }

    /// An object that carries nothing but a resourceVersion.
    pub(super) fn bookmark(self, version: u64, ends_initial_events: bool) -> Value {
        let mut metadata = json!({
            "resourceVersion": version.to_string(),
            "creationTimestamp": null,
        });
        if ends_initial_events {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        match self {
            Self::Whole => json!({
                "kind": "Node", "apiVersion": "v1", "metadata": metadata,
                "spec": {}, "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": {
                    "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "",
                    "osImage": "", "containerRuntimeVersion": "", "kubeletVersion": "",
                    "kubeProxyVersion": "", "operatingSystem": "", "architecture": "",
                }},
            }),
            Self::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
            }),
        }
    }
}
