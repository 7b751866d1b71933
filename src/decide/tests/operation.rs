//! The processes of the units, one step at a time, recording as `operate` does: what is written is flushed
//! before the next step, and any step may be the last.

use super::case::OLD;
use super::world::{Process, Work, World};
use crate::contract::{Code, Phase, Request, Status};
use crate::decide::{
    Answer, Served, Verdict, after_commit, after_finalize, after_rollback_stage, after_stage,
};
use crate::state::{
    Arming, CommitRecord, Completed, InFlight, LOST_BOOT, PendingCommit, Staged, State,
};

/// What a process read when it began, and what it heard since.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Job {
    Operation { operation: InFlight, answer: Option<Answer> },
    Commit { pending: PendingCommit, answer: Option<Answer> },
}

impl World {
    /// One step of the running unit, if there is one.
    pub(super) fn step_units(&mut self) {
        let ids: Vec<_> = self.units.keys().cloned().collect();
        for id in ids {
            let process = self.units.get(&id).unwrap().clone();
            let process = self.step(process);
            self.units.insert(id, process);
        }
    }

    pub(super) fn step_commit(&mut self) {
        if let Some(process) = self.commit.clone() {
            self.commit = Some(self.step(process));
        }
    }

    fn step(&mut self, process: Process) -> Process {
        let work = match process.work {
            Work::Started if self.is_locked() => ended("exit-code"),
            Work::Started => self.begin(process.request.as_ref()),
            Work::Working { step, operation } => self.work(step, *operation),
            ended @ Work::Ended(_) => ended,
        };
        Process { work, ..process }
    }

    fn begin(&self, request: Option<&Request>) -> Work {
        let job = match request {
            None => self.pending().map(|pending| Job::Commit { pending, answer: None }),
            Some(request) => {
                let ours = |it: &&InFlight| it.request.operation_id == request.operation_id;
                let operation = self.state.operation.as_ref().filter(ours).cloned();
                operation.map(|operation| Job::Operation { operation, answer: None })
            }
        };
        match job {
            Some(job) => Work::Working { step: 0, operation: Box::new(job) },
            None => ended("success"),
        }
    }

    fn work(&mut self, step: u32, job: Job) -> Work {
        let job = match job {
            Job::Commit { pending, answer } => self.commit_step(step, pending, answer),
            Job::Operation { operation, answer } => {
                self.check_may_work(&operation.request.operation_id.canonical());
                match operation.request.operation().into() {
                    Phase::Stage => self.stage_step(step, operation, answer),
                    Phase::Finalize => self.arm_step(step, operation, answer),
                    Phase::Rollback => self.rollback_step(step, operation, answer),
                    Phase::Commit => None,
                }
            }
        };
        match job {
            Some(job) => Work::Working { step: step + 1, operation: Box::new(job) },
            None => ended("success"),
        }
    }

    fn stage_step(&mut self, step: u32, it: InFlight, answer: Option<Answer>) -> Option<Job> {
        let update = it.request.work.update().unwrap().clone();
        match (step, answer) {
            (0, _) => {
                self.update(|state| state.staged = None);
                Some(Job::Operation { operation: it, answer: None })
            }
            (_, None) => {
                let answer = Some(self.trident.stage(&update.target_version));
                Some(Job::Operation { operation: it, answer })
            }
            (_, Some(answer)) => {
                let verdict = after_stage(&answer, &update.target_version);
                let good = verdict.code == Code::Success;
                let id = it.request.node_update_id.clone();
                self.end(&it, verdict, |state| {
                    if good {
                        state.staged = Some(Staged::new(id, update, None));
                    }
                });
                None
            }
        }
    }

    fn rollback_step(&mut self, step: u32, it: InFlight, answer: Option<Answer>) -> Option<Job> {
        let staged = it.arming.as_ref().is_some_and(|arming| arming.boot_marker != LOST_BOOT);
        if step > 0 || staged || self.trident.is_armed() {
            return self.arm_step(step, it, answer);
        }
        match after_rollback_stage(&self.trident.rollback_stage()) {
            None => Some(Job::Operation { operation: it, answer: None }),
            Some(verdict) => {
                self.end(&it, verdict, |_| ());
                None
            }
        }
    }

    fn arm_step(&mut self, step: u32, mut it: InFlight, answer: Option<Answer>) -> Option<Job> {
        if let Some(answer) = answer {
            self.armed(&it, &answer);
            return None;
        }
        let recorded = it.arming.as_ref().map(|arming| arming.boot_marker.clone());
        match recorded {
            Some(_) if step > 0 && self.called_for(&it) => {
                let answer = Some(self.call(&it.request));
                Some(Job::Operation { operation: it, answer })
            }
            Some(marker) if self.trident.is_armed() => {
                let target = it.request.target_version().unwrap_or(OLD);
                let lost = marker == LOST_BOOT && self.trident.active != target;
                let boot_marker = if lost { self.boot_id() } else { marker };
                it.arming = Some(Arming { boot_marker });
                Some(Job::Operation { operation: it, answer: Some(done()) })
            }
            _ => {
                let arming = Arming { boot_marker: self.boot_id() };
                it.arming = Some(arming.clone());
                self.update(|state| {
                    if let Some(operation) = &mut state.operation {
                        operation.arming = Some(arming);
                    }
                });
                Some(Job::Operation { operation: it, answer: None })
            }
        }
    }

    /// This attempt has recorded that it is arming, in this boot, and nothing is armed yet.
    fn called_for(&self, operation: &InFlight) -> bool {
        let this_boot = Some(Arming { boot_marker: self.boot_id() });
        operation.arming == this_boot && !self.trident.is_armed()
    }

    fn call(&mut self, request: &Request) -> Answer {
        match request.target_version() {
            Some(target) => self.trident.finalize(target),
            None => self.trident.rollback_finalize(),
        }
    }

    fn armed(&mut self, it: &InFlight, answer: &Answer) {
        let verdict = after_finalize(answer);
        let good = verdict.code == Code::Success;
        let uptime = self.boot().uptime.as_secs();
        let marker = it.arming.clone().unwrap().boot_marker;
        self.end(it, verdict, |state| {
            if good {
                state.pending_commit = Some(PendingCommit::new(it, marker, uptime));
            } else {
                state.staged = None;
            }
        });
    }

    fn end(&mut self, it: &InFlight, verdict: Verdict, change: impl FnOnce(&mut State)) {
        let status = it
            .status()
            .finish(verdict.code, &verdict.message, self.now())
            .with_trident_error(verdict.trident_error);
        self.update(|state| {
            state.complete(status);
            change(state);
        });
    }

    fn commit_step(
        &mut self,
        step: u32,
        pending: PendingCommit,
        answer: Option<Answer>,
    ) -> Option<Job> {
        let from = Some(pending.from_version.clone());
        match (step, answer) {
            (0, _) => {
                let begun = Status::begin(&pending.request, Phase::Commit, from, self.now());
                self.update(|state| begin_commit(state, &pending, begun));
                Some(Job::Commit { pending, answer: None })
            }
            (_, None) => {
                let answer = Some(self.trident.commit());
                Some(Job::Commit { pending, answer })
            }
            (_, Some(answer)) => {
                let version = self.trident.active.clone();
                let verdict =
                    after_commit(&answer, &pending.request, &pending.from_version, Some(&version));
                let good = verdict.code == Code::Success;
                assert!(!good || self.trident.is_on_target(), "a false success: {self:#?}");
                let now = self.now();
                self.update(|state| {
                    let done = state.find_mut(&pending.request.operation_id).unwrap();
                    let commit = done.commit.as_mut().unwrap();
                    commit.status = commit
                        .status
                        .clone()
                        .finish(verdict.code, &verdict.message, now)
                        .with_trident_error(verdict.trident_error);
                    state.pending_commit = None;
                    state.staged = None;
                });
                None
            }
        }
    }
}

fn begin_commit(state: &mut State, pending: &PendingCommit, begun: Status) {
    let id = &pending.request.operation_id;
    if state.find(id).is_none() {
        let phase = pending.request.operation().into();
        let from = Some(pending.from_version.clone());
        let lost = Status::begin(&pending.request, phase, from, begun.started_utc);
        state.completed.push(Completed::new(lost.finish(Code::Success, "", begun.started_utc)));
    }
    let done = state.find_mut(id).unwrap();
    done.commit.get_or_insert_with(|| CommitRecord::new(begun));
}

fn done() -> Answer {
    Answer::Done { served: Served::AbUpdate, reboot: true }
}

fn ended(result: &str) -> Work {
    Work::Ended(result.to_owned())
}
