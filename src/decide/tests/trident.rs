//! tridentd with two slots, as far as a decision can tell.

use crate::contract::TridentError;
use crate::decide::{Answer, Served};

#[derive(Debug, Clone, PartialEq)]
enum Servicing {
    Provisioned,
    Staged,
    RollbackStaged,
    Armed { kind: Served, rebooted: bool },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trident {
    pub(super) active: String,
    other: String,
    can_roll_back: bool,
    is_on_target: bool,
    servicing: Servicing,
    /// The next call returns an error.
    pub(super) fails: bool,
}

impl Trident {
    pub(super) fn new(version: &str) -> Self {
        Self {
            active: version.to_owned(),
            other: String::new(),
            can_roll_back: false,
            is_on_target: false,
            servicing: Servicing::Provisioned,
            fails: false,
        }
    }

    pub(super) fn stage(&mut self, version: &str) -> Answer {
        if self.is_failing() || self.is_armed() {
            return failed("stage");
        }
        self.other = version.to_owned();
        self.can_roll_back = false;
        self.servicing = Servicing::Staged;
        done(Served::AbUpdate)
    }

    pub(super) fn finalize(&mut self, wanted: &str) -> Answer {
        if self.is_failing() || self.servicing != Servicing::Staged {
            return failed("finalize");
        }
        assert_eq!(self.other, wanted, "another version than was asked for is armed");
        self.servicing = Servicing::Armed { kind: Served::AbUpdate, rebooted: false };
        done(Served::AbUpdate)
    }

    pub(super) fn rollback_stage(&mut self) -> Answer {
        if self.is_failing() {
            return failed("rollback-stage");
        }
        if !self.can_roll_back {
            return done(Served::Nothing);
        }
        self.servicing = Servicing::RollbackStaged;
        done(Served::AbRollback)
    }

    pub(super) fn rollback_finalize(&mut self) -> Answer {
        if self.is_failing() || self.servicing != Servicing::RollbackStaged {
            return failed("rollback-finalize");
        }
        self.servicing = Servicing::Armed { kind: Served::AbRollback, rebooted: false };
        done(Served::AbRollback)
    }

    pub(super) fn commit(&mut self) -> Answer {
        if self.is_failing() {
            return failed("commit");
        }
        let Servicing::Armed { kind, rebooted } = self.servicing.clone() else {
            return done(Served::Nothing);
        };
        assert!(rebooted, "a commit before the reboot discards the armed update");
        self.servicing = Servicing::Provisioned;
        if self.is_on_target {
            self.can_roll_back = kind == Served::AbUpdate;
            return done(kind);
        }
        failed("ab-update-reboot-check")
    }

    pub(super) fn is_armed(&self) -> bool {
        matches!(self.servicing, Servicing::Armed { .. })
    }

    /// The last armed boot came up on the slot that it was for.
    pub(super) fn is_on_target(&self) -> bool {
        self.is_on_target
    }

    pub(super) fn boot(&mut self, falls_back: bool) {
        if let Servicing::Armed { rebooted, .. } = &mut self.servicing
            && !*rebooted
        {
            *rebooted = true;
            self.is_on_target = !falls_back;
            if !falls_back {
                std::mem::swap(&mut self.active, &mut self.other);
            }
        }
    }

    fn is_failing(&mut self) -> bool {
        std::mem::take(&mut self.fails)
    }
}

fn done(served: Served) -> Answer {
    Answer::Done { served, reboot: false }
}

fn failed(subkind: &str) -> Answer {
    let (kind, subkind) = ("servicing".to_owned(), subkind.to_owned());
    let error = TridentError { kind, subkind, location: None };
    Answer::Failed { error, message: String::new() }
}
