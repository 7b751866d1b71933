//! Every step by which this program changes what is around it, or asks: the places where it may be stopped at
//! any moment and the update must go on all the same. `docs/reliability.md` says what is promised of them.
//!
//! The doors and the memory name the step that they take, and that is all. The test build (the feature
//! `stop-points`, which nothing ships) asks the lab before and after each of them whether to go on.

#[cfg(not(feature = "stop-points"))]
mod plain;
#[cfg(feature = "stop-points")]
mod stop;

#[cfg(not(feature = "stop-points"))]
pub use plain::{awaited, done};
#[cfg(feature = "stop-points")]
pub use stop::{awaited, done};

/// What a step does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It changes something: each time that it is taken counts.
    Effect,
    /// It only asks: within one process, one time is like another.
    Question,
    /// It belongs to `--validate-connection`, and to no operation.
    Apart,
}

macro_rules! steps {
    ($($name:ident = $text:literal, $kind:ident;)+) => {
        /// A step, by the name under which the tests stop at it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Step {
            $(#[doc = $text] $name,)+
        }

        impl Step {
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            pub const fn kind(self) -> Kind {
                match self {
                    $(Self::$name => Kind::$kind,)+
                }
            }
        }
    };
}

steps! {
    FileLock = "file.lock", Question;
    FileWrite = "file.write", Effect;
    FileFlush = "file.flush", Effect;
    FileRename = "file.rename", Effect;
    DirectoryFlush = "directory.flush", Effect;
    FileRemove = "file.remove", Effect;

    NodeRead = "kubernetes.get", Question;
    NodeList = "kubernetes.list", Question;
    NodeWatch = "kubernetes.watch", Question;
    NodeSeen = "kubernetes.watch-event", Question;
    StatusWrite = "kubernetes.patch", Effect;

    BusConnect = "systemd.connect", Question;
    Subscribe = "systemd.Subscribe", Question;
    Signals = "systemd.JobRemoved", Question;
    NameHasOwner = "bus.NameHasOwner", Question;
    GetUnit = "systemd.GetUnit", Question;
    UnitProperties = "systemd.Get", Question;
    UnitPath = "systemd.UnitPath", Question;
    ListUnits = "systemd.ListUnitsByPatterns", Question;
    ListJobs = "systemd.ListJobs", Question;
    SystemState = "systemd.SystemState", Question;
    StartTransientUnit = "systemd.StartTransientUnit", Effect;
    StartUnit = "systemd.StartUnit", Effect;
    StopUnit = "systemd.StopUnit", Effect;
    ResetFailedUnit = "systemd.ResetFailedUnit", Effect;
    Reboot = "logind.Reboot", Effect;
    PreparingForShutdown = "logind.PreparingForShutdown", Question;
    ListInhibitors = "logind.ListInhibitors", Question;

    ServicingCall = "trident.call", Effect;
    ServicingAnswer = "trident.answer", Effect;
    ServicingState = "trident.GetServicingState", Question;
    TridentVersion = "trident.Version", Apart;

    OmahaPost = "omaha.post", Effect;
}
