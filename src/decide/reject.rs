use super::{Act, Asked, View};
use crate::contract::{Broken, Code, Id, Operation, Phase, Request, Status, origin};

/// The answer to what cannot be run now or ever; `None` where nothing new is asked, or it may be run.
pub(super) fn refusal(view: &View<'_>) -> Option<Act> {
    match &view.annotations.asked {
        Asked::Unknown | Asked::Nothing => None,
        Asked::Broken { digest, broken } => {
            let refused = view.state.refused.as_ref().is_some_and(|it| it.digest == *digest);
            // Under an id that has an answer, or will have one, no other may follow.
            let known = refused || view.is_in_flight() || view.answered().is_some();
            (!known).then(|| broken_answer(view, digest, broken))
        }
        Asked::Request { request, .. } => {
            let busy = busy_with(view, request)?;
            view.answered()
                .is_none()
                .then(|| Act::Complete(Box::new(ended(view, request, Code::InvalidRequest, &busy))))
        }
    }
}

/// Recorded under its id where that can be read: it is spent then, as after any other answer. Else under the
/// text itself.
fn broken_answer(view: &View<'_>, digest: &str, broken: &Broken) -> Act {
    let phase = broken.operation.into();
    let status =
        Status::of(broken.node_update_id.clone(), broken.operation_id.clone(), phase, view.now)
            .from_version(view.version);
    let why = broken.problem.to_string();
    if broken.operation_id == Id::nil() {
        let status = Box::new(status.finish(Code::InvalidRequest, &why, view.now));
        return Act::Refuse { digest: digest.to_owned(), status };
    }
    let why = format!("{why}; once corrected, ask under a new operationId");
    Act::Complete(Box::new(status.finish(Code::InvalidRequest, &why, view.now)))
}

/// Another finalize or rollback that has begun and whose commit is not done. A running stage is waited for.
fn busy_with(view: &View<'_>, request: &Request) -> Option<String> {
    let other = |it: &Request| it.operation_id != request.operation_id;
    if let Some(operation) = view.state.operation.as_ref().filter(|it| other(&it.request)) {
        let name = operation.request.operation().name();
        let id = &operation.request.operation_id;
        let begun = operation.starts > 0;
        return (begun && operation.request.operation() != Operation::Stage)
            .then(|| format!("{name} {id} is running on this node: wait for its commit"));
    }
    let pending = view.state.pending_commit.as_ref().filter(|it| other(&it.request))?;
    let (name, id) = (pending.request.operation().name(), &pending.request.operation_id);
    let what = if view.rebooted() { "commit" } else { "reboot and its commit" };
    Some(format!("{name} {id} still awaits its {what}: ask again after the commit status"))
}

/// The terminal status of a request that must not run; `None`: it may.
pub(super) fn fresh(view: &View<'_>, request: &Request, server_allowed: bool) -> Option<Status> {
    let (code, message) = verdict(view, request, server_allowed)?;
    Some(ended(view, request, code, &message))
}

fn verdict(view: &View<'_>, request: &Request, server_allowed: bool) -> Option<(Code, String)> {
    let update = request.work.update()?;
    if !server_allowed {
        let server = origin(&update.server);
        let message = format!("`server` {server} is not among this node's allowed servers");
        return Some((Code::InvalidRequest, message));
    }
    let target = &update.target_version;
    if view.version == Some(target.as_str()) {
        return Some((Code::AlreadyAtTarget, format!("this node runs {target} already")));
    }
    match request.operation() {
        Operation::Stage | Operation::Rollback => None,
        Operation::Finalize => not_staged(view, request, target),
    }
}

fn not_staged(view: &View<'_>, request: &Request, target: &str) -> Option<(Code, String)> {
    let staged = view.state.staged.as_ref();
    match staged.filter(|staged| staged.node_update_id == request.node_update_id) {
        None => {
            let id = &request.node_update_id;
            let message = format!("nothing is staged for nodeUpdateId {id}: stage it first");
            Some((Code::NotStaged, message))
        }
        Some(staged) if staged.update.target_version != target => {
            let message = format!(
                "`targetVersion` is {target}, but {} is staged",
                staged.update.target_version
            );
            Some((Code::InvalidRequest, message))
        }
        Some(_) => None,
    }
}

fn ended(view: &View<'_>, request: &Request, code: Code, message: &str) -> Status {
    let phase: Phase = request.operation().into();
    let from = view.version.map(str::to_owned);
    Status::begin(request, phase, from, view.now).finish(code, message, view.now)
}
