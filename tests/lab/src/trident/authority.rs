//! Lets only requests for the authority `localhost` in, as HTTP/2 servers on a unix socket do.

use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::Status;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;

use super::shared::Shared;

/// The request's `:authority`, for the record.
#[derive(Clone, Debug)]
pub(super) struct Authority(pub(super) String);

/// A service behind the check.
#[derive(Clone)]
pub(super) struct Localhost<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> Localhost<S> {
    pub(super) fn new(inner: S, shared: &Arc<Shared>) -> Self {
        Self { inner, shared: Arc::clone(shared) }
    }
}

impl<S: NamedService> NamedService for Localhost<S> {
    const NAME: &'static str = S::NAME;
}

type Answer = http::Response<tonic::body::Body>;

impl<S, B> Service<http::Request<B>> for Localhost<S>
where
    S: Service<http::Request<B>, Response = Answer>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Answer;
    type Error = S::Error;
    type Future = BoxFuture<Answer, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<B>) -> Self::Future {
        let authority = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        if authority != "localhost" {
            let answer = Status::invalid_argument(format!("authority {authority:?}")).into_http();
            self.shared.stranger(authority);
            return Box::pin(async { Ok(answer) });
        }
        request.extensions_mut().insert(Authority(authority));
        Box::pin(self.inner.call(request))
    }
}
