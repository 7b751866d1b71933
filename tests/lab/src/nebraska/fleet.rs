//! The server's memory: groups, their packages, and the state machine of each instance.
//!
//! ```text
//!               check: offered             13,1           14,1            800,1
//! (registered) ───────────────▶ Granted ─────────▶ Downloading ─▶ Downloaded ─▶ Installed
//!                                  any of them, while an update is in progress:
//!                                  3,2 with previousversion ─▶ Complete     3,0 ─▶ Error
//! ```
//! A check in Downloading, Downloaded or Installed is refused. No event order is enforced.

use std::collections::BTreeMap;
use std::time::Instant;

use semver::Version;

use super::instance::{DropReason, DroppedEvent, Instance, InstanceStatus, Limits};
use super::package::PackageSpec;
use super::request::{AppRequest, EventRequest};

/// What an update check comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Check {
    Offer(Box<PackageSpec>),
    NoUpdate,
    /// An app status, and `error-internal` as that of the check.
    Refused(String),
}

/// Application (without braces, lower case), track, architecture.
pub(super) type GroupKey = (String, String, String);

#[derive(Debug, Default)]
struct Group {
    packages: Vec<PackageSpec>,
    limits: Limits,
    refusal: Option<String>,
    granted: u32,
}

#[derive(Debug, Default)]
pub(super) struct Fleet {
    groups: BTreeMap<GroupKey, Group>,
    instances: Vec<Instance>,
    pub(super) dropped: Vec<DroppedEvent>,
}

impl Fleet {
    pub(super) fn add_package(&mut self, app: &str, track: &str, package: PackageSpec) {
        let key = (normal(app), track.to_owned(), package.arch.clone());
        self.groups.entry(key).or_default().packages.push(package);
    }

    /// A group for amd64 that need not have a package.
    pub(super) fn add_group(&mut self, app: &str, track: &str) {
        self.groups.entry((normal(app), track.to_owned(), "amd64".to_owned())).or_default();
    }

    pub(super) fn clear_packages(&mut self, app: &str, track: &str) {
        self.each_group(app, track, |group| group.packages.clear());
    }

    pub(super) fn set_limits(&mut self, app: &str, track: &str, limits: Limits) {
        self.each_group(app, track, |group| group.limits = limits);
    }

    pub(super) fn set_refusal(&mut self, app: &str, track: &str, status: Option<&str>) {
        self.each_group(app, track, |group| group.refusal = status.map(str::to_owned));
    }

    pub(super) fn instances(&self) -> Vec<Instance> {
        self.instances.clone()
    }

    fn each_group(&mut self, app: &str, track: &str, act: impl Fn(&mut Group)) {
        let mut found = false;
        for ((a, t, _), group) in &mut self.groups {
            if *a == normal(app) && t == track {
                act(group);
                found = true;
            }
        }
        assert!(found, "no group {track} of application {app}");
    }

    /// The group of a request; `None` is answered `error-unknownApplicationOrGroup`.
    pub(super) fn group_of(&self, app: &AppRequest, os_arch: Option<&str>) -> Option<GroupKey> {
        let key = (normal(app.app_id()), app.track().to_owned(), arch(os_arch).to_owned());
        self.groups.contains_key(&key).then_some(key)
    }

    /// Takes an event, or drops it; the answer is the same.
    pub(super) fn event(&mut self, app: &AppRequest, group: &GroupKey, event: &EventRequest) {
        if let Err(reason) = self.try_event(app, group, event) {
            self.drop_event(app, event, reason);
        }
    }

    /// Drops every event of a request.
    pub(super) fn drop_events(&mut self, app: &AppRequest, reason: DropReason) {
        app.events.iter().for_each(|event| self.drop_event(app, event, reason));
    }

    fn drop_event(&mut self, app: &AppRequest, event: &EventRequest, reason: DropReason) {
        let (at, machine_id) = (Instant::now(), app.machine_id().to_owned());
        self.dropped.push(DroppedEvent { at, machine_id, event: event.clone(), reason });
    }

    fn try_event(
        &mut self,
        app: &AppRequest,
        group: &GroupKey,
        event: &EventRequest,
    ) -> Result<(), DropReason> {
        let at = self.position(app).ok_or(DropReason::UnknownInstance)?;
        if !self.instances[at].update_in_progress {
            return Err(DropReason::NoUpdateInProgress);
        }
        let status = consequence(event)?;
        self.instances[at].set(status);
        if status == InstanceStatus::Error {
            self.stop_at_first_failure(group);
        }
        Ok(())
    }

    fn stop_at_first_failure(&mut self, key: &GroupKey) {
        let group = self.groups.get_mut(key).expect("the group was found");
        if group.limits.safe_mode && group.granted == 1 {
            group.limits.updates_enabled = false;
        }
    }

    /// Takes note of an instance; a ping does no more than that.
    pub(super) fn register(&mut self, app: &AppRequest) -> Result<(), String> {
        if app.machine_id().is_empty() {
            return Err("error-instanceRegistrationFailed".to_owned());
        }
        match self.position(app) {
            Some(at) => {
                let instance = &mut self.instances[at];
                instance.version = app.version().to_owned();
                instance.track = app.track().to_owned();
            }
            None => self.instances.push(Instance {
                machine_id: app.machine_id().to_owned(),
                app_id: normal(app.app_id()),
                track: app.track().to_owned(),
                version: app.version().to_owned(),
                status: InstanceStatus::Undefined,
                update_in_progress: false,
                last_update_version: None,
                history: vec![],
            }),
        }
        Ok(())
    }

    /// Answers an update check.
    pub(super) fn check(&mut self, app: &AppRequest, key: &GroupKey) -> Check {
        self.try_check(app, key).unwrap_or_else(Check::Refused)
    }

    fn try_check(&mut self, app: &AppRequest, key: &GroupKey) -> Result<Check, String> {
        let refusal = self.groups[key].refusal.clone();
        let by_policy = refusal.as_deref().is_some_and(is_policy);
        if let Some(status) = refusal.as_ref().filter(|_| !by_policy) {
            return Err(status.clone());
        }
        self.register(app)?;
        let at = self.position(app).expect("registered above");
        if is_busy(self.instances[at].status) {
            return Err("error-updateInProgressOnInstance".to_owned());
        }
        let group = &self.groups[key];
        if group.packages.is_empty() {
            return Err("error-noPackageFound".to_owned());
        }
        let Some(package) = group.offer(app.version()).cloned() else {
            return Ok(Check::NoUpdate);
        };
        if let Some(status) = refusal.or_else(|| self.limit(key, at)) {
            self.instances[at].set(InstanceStatus::OnHold);
            return Err(status);
        }
        self.grant(key, at, &package);
        Ok(Check::Offer(Box::new(package)))
    }

    fn grant(&mut self, key: &GroupKey, at: usize, package: &PackageSpec) {
        self.groups.get_mut(key).expect("the group was found").granted += 1;
        let instance = &mut self.instances[at];
        instance.last_update_version = Some(package.version.clone());
        instance.update_in_progress = true;
        instance.set(InstanceStatus::UpdateGranted);
    }

    fn limit(&self, key: &GroupKey, at: usize) -> Option<String> {
        let (group, asking) = (&self.groups[key], &self.instances[at]);
        let limits = group.limits;
        let others = self.instances.iter().filter(|other| {
            other.update_in_progress
                && (&other.app_id, &other.track) == (&key.0, &key.1)
                && other.machine_id != asking.machine_id
        });
        if !limits.updates_enabled {
            Some("error-updatesDisabled".to_owned())
        } else if group.granted >= limits.max_per_period {
            Some("error-maxUpdatesPerPeriodLimitReached".to_owned())
        } else if others.count() >= limits.max_concurrent as usize {
            Some("error-maxConcurrentUpdatesLimitReached".to_owned())
        } else {
            None
        }
    }

    fn position(&self, app: &AppRequest) -> Option<usize> {
        self.instances.iter().position(|instance| {
            instance.machine_id == app.machine_id() && instance.app_id == normal(app.app_id())
        })
    }
}

impl Group {
    /// The lowest floor above the version, else the channel's package if it is newer.
    fn offer(&self, version: &str) -> Option<&PackageSpec> {
        let have = semver(version);
        let newer = |package: &&PackageSpec| semver(&package.version).cmp_precedence(&have).is_gt();
        let channel = self.packages.iter().rfind(|p| !p.floor).filter(newer);
        let floors = self.packages.iter().filter(|p| p.floor).filter(newer);
        let reachable = floors.filter(|floor| match self.packages.iter().rfind(|p| !p.floor) {
            Some(last) => semver(&floor.version).cmp_precedence(&semver(&last.version)).is_le(),
            None => true,
        });
        reachable.min_by(|a, b| semver(&a.version).cmp_precedence(&semver(&b.version))).or(channel)
    }
}

fn consequence(event: &EventRequest) -> Result<InstanceStatus, DropReason> {
    match (event.event_type, event.event_result) {
        (13, 1) => Ok(InstanceStatus::Downloading),
        (14, 1) => Ok(InstanceStatus::Downloaded),
        (800, 1) => Ok(InstanceStatus::Installed),
        (3, 0) => Ok(InstanceStatus::Error),
        (3, 2) => match event.previous_version.as_deref() {
            None | Some("" | "0.0.0") => Err(DropReason::NoPreviousVersion),
            Some(_) => Ok(InstanceStatus::Complete),
        },
        _ => Err(DropReason::UnknownPair),
    }
}

fn is_busy(status: InstanceStatus) -> bool {
    use InstanceStatus::{Downloaded, Downloading, Installed};
    matches!(status, Downloading | Downloaded | Installed)
}

/// Refusals that come only where there would be an offer.
fn is_policy(status: &str) -> bool {
    status == "error-updatesDisabled" || status.ends_with("LimitReached")
}

/// What is not a semantic version counts as 0.0.0.
fn semver(text: &str) -> Version {
    Version::parse(text).unwrap_or_else(|_| Version::new(0, 0, 0))
}

fn arch(os_arch: Option<&str>) -> &'static str {
    match os_arch {
        Some("aarch64" | "arm") => "aarch64",
        _ => "amd64",
    }
}

fn normal(app_id: &str) -> String {
    app_id.trim_matches(['{', '}']).to_ascii_lowercase()
}
