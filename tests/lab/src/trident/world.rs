//! What tridentd and the firmware remember, and how each call changes it.
//!
//! ```text
//! Provisioned ──stage──▶ Staged ──finalize──▶ Finalized ──(reboot) commit──▶ Provisioned
//! ```
//! The same for an update and for a rollback.

use serde::{Deserialize, Serialize};

use super::proto::v1::{ManualRollbackKind, RebootStatus, ServicingKind, TridentErrorKind};
use super::proto::v1preview::ServicingState;
use super::script::Fault;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Slot {
    /// Volume A.
    A,
    /// Volume B.
    B,
}

impl Slot {
    /// Not this one.
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Image {
    pub(super) version: String,
    pub(super) sha384: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    Provisioned,
    UpdateStaged,
    UpdateFinalized,
    RollbackStaged,
    RollbackFinalized,
}

/// The answer of a servicing call.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Done { kind: ServicingKind, reboot: RebootStatus, image_hash: Option<String> },
    Failed(Fault),
}

impl Answer {
    pub(super) fn done(kind: ServicingKind) -> Self {
        Self::Done { kind, reboot: RebootStatus::RebootNotRequired, image_hash: None }
    }

    fn failed(kind: TridentErrorKind, subkind: &str, message: &str) -> Self {
        Self::Failed(Fault::new(kind, subkind, message))
    }
}

/// Kept on disk after every change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct World {
    phase: Phase,
    booted: Slot,
    /// The slot of every boot that is not armed: the last one committed.
    boot_order: Slot,
    next_boot: Option<Slot>,
    a: Option<Image>,
    b: Option<Image>,
    /// The other slot holds what ran before the last update.
    undoable: bool,
}

impl World {
    pub(super) fn new(version: &str) -> Self {
        Self {
            phase: Phase::Provisioned,
            booted: Slot::A,
            boot_order: Slot::A,
            next_boot: None,
            a: Some(Image { version: version.to_owned(), sha384: None }),
            b: None,
            undoable: false,
        }
    }

    pub(super) fn booted(&self) -> Slot {
        self.booted
    }

    pub(super) fn version(&self, slot: Slot) -> Option<&str> {
        self.image(slot).map(|image| image.version.as_str())
    }

    fn image(&self, slot: Slot) -> Option<&Image> {
        match slot {
            Slot::A => self.a.as_ref(),
            Slot::B => self.b.as_ref(),
        }
    }

    fn is_finalized(&self) -> bool {
        matches!(self.phase, Phase::UpdateFinalized | Phase::RollbackFinalized)
    }

    pub(super) fn stage(&mut self, image: Image) -> Answer {
        if self.is_finalized() {
            return not_now("cannot stage: a reboot is due");
        }
        self.phase = Phase::Provisioned;
        if self.version(self.boot_order) == Some(&image.version) {
            return Answer::done(ServicingKind::NoneRequired);
        }
        let image_hash = image.sha384.clone();
        match self.boot_order.other() {
            Slot::A => self.a = Some(image),
            Slot::B => self.b = Some(image),
        }
        // What could be gone back to has just been written over.
        self.undoable = false;
        self.phase = Phase::UpdateStaged;
        let reboot = RebootStatus::RebootNotRequired;
        Answer::Done { kind: ServicingKind::AbUpdate, reboot, image_hash }
    }

    pub(super) fn finalize_update(&mut self) -> Answer {
        if self.phase != Phase::UpdateStaged {
            return not_now("cannot finalize: no update is staged");
        }
        self.phase = Phase::UpdateFinalized;
        self.arm(ServicingKind::AbUpdate)
    }

    pub(super) fn stage_rollback(&mut self, kind: ManualRollbackKind) -> Answer {
        if self.is_finalized() {
            return not_now("cannot stage a rollback: a reboot is due");
        }
        if !self.undoable || kind == ManualRollbackKind::RuntimeRollbackRequested {
            return Answer::done(ServicingKind::NoneRequired);
        }
        self.phase = Phase::RollbackStaged;
        Answer::done(ServicingKind::ManualRollbackAb)
    }

    pub(super) fn finalize_rollback(&mut self) -> Answer {
        if self.phase != Phase::RollbackStaged {
            return not_now("cannot finalize: no rollback is staged");
        }
        self.phase = Phase::RollbackFinalized;
        self.arm(ServicingKind::ManualRollbackAb)
    }

    fn arm(&mut self, kind: ServicingKind) -> Answer {
        let target = self.boot_order.other();
        self.next_boot = Some(target);
        let image_hash = self.image(target).and_then(|image| image.sha384.clone());
        Answer::Done { kind, reboot: RebootStatus::RebootRequired, image_hash }
    }

    pub(super) fn commit(&mut self) -> Answer {
        let (kind, subkind) = match self.phase {
            Phase::UpdateFinalized => (ServicingKind::AbUpdate, "ab-update-reboot-check"),
            Phase::RollbackFinalized => {
                (ServicingKind::ManualRollbackAb, "manual-rollback-reboot-check")
            }
            _ => return Answer::done(ServicingKind::NoneRequired),
        };
        let expected = self.boot_order.other();
        self.disarm();
        if self.booted != expected {
            let message = format!("expected to boot from {expected:?}, not {:?}", self.booted);
            return Answer::failed(TridentErrorKind::ServicingError, subkind, &message);
        }
        self.boot_order = self.booted;
        self.undoable = kind == ServicingKind::AbUpdate;
        Answer::done(kind)
    }

    /// Forgets a finalized update or rollback.
    pub(super) fn disarm(&mut self) {
        self.phase = Phase::Provisioned;
        self.next_boot = None;
    }

    /// The firmware's choice. An armed boot is tried once.
    pub(super) fn boot(&mut self, fail: bool) -> Slot {
        let armed = self.next_boot.take().filter(|_| !fail);
        self.booted = armed.unwrap_or(self.boot_order);
        self.booted
    }

    pub(super) fn servicing_state(&self) -> ServicingState {
        match self.phase {
            Phase::Provisioned => ServicingState::Provisioned,
            Phase::UpdateStaged => ServicingState::UpdateAbStaged,
            Phase::UpdateFinalized => ServicingState::UpdateAbFinalized,
            Phase::RollbackStaged => ServicingState::ManualRollbackAbStaged,
            Phase::RollbackFinalized => ServicingState::ManualRollbackAbFinalized,
        }
    }
}

fn not_now(message: &str) -> Answer {
    Answer::failed(TridentErrorKind::InvalidInputError, "invalid-servicing-state", message)
}
