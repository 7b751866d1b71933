use std::path::Path;
use std::time::Duration;

use zbus::proxy::CacheProperties;
use zbus::{OwnedObjectPath, OwnedVariant, Variant};
use zbus_systemd::systemd1;

use super::bus::call;
use super::error::name;
use super::{Systemd, SystemdError};
use crate::steps::Step;

const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";
/// A unit as systemd sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitState {
    /// Not loaded, or never run since it was.
    Absent,
    /// Not run yet, and a job for it waits its turn: just started, or boot's.
    Queued,
    /// Has a process, or is about to have one.
    Running,
    /// systemd's `Result` of the last run: `success`, `exit-code`, `timeout`, `oom-kill`, ...
    Ended { result: String },
}

/// What differs from run to run of a transient unit; all else is data, in its drop-ins.
#[derive(Debug, Clone)]
pub struct Transient {
    pub name: String,
    /// Files below a unit directory that hold its settings and sandbox: without them it is not started.
    pub drop_ins: Vec<String>,
    pub description: String,
    pub program: String,
    /// Without the program. Not expanded by systemd.
    pub arguments: Vec<String>,
    pub start_timeout: Duration,
}

impl Systemd {
    /// # Errors
    /// [`SystemdError`], but not for a unit that does not exist.
    pub async fn unit(&self, unit: &str) -> Result<UnitState, SystemdError> {
        let what = || format!("reading the state of {unit}");
        let found = self.manager.get_unit(unit.to_owned());
        let path = match call(Step::GetUnit, what(), found).await {
            Ok(path) => path,
            Err(SystemdError::Call { source, .. })
                if name(&source).as_deref() == Some(NO_SUCH_UNIT) =>
            {
                return Ok(UnitState::Absent);
            }
            Err(error) => return Err(error),
        };
        call(Step::UnitProperties, what(), self.state_at(path)).await
    }

    async fn state_at(&self, path: OwnedObjectPath) -> zbus::Result<UnitState> {
        let unit = systemd1::UnitProxy::builder(&self.connection)
            .path(path.clone())
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        // First: a job that is through by then has left its traces in what is read after it.
        let has_job = unit.job().await?.0 != 0;
        let active = unit.active_state().await?;
        if !matches!(active.as_str(), "inactive" | "failed" | "active") {
            return Ok(UnitState::Running);
        }
        let service = systemd1::ServiceProxy::builder(&self.connection)
            .path(path)
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        let ended = service.exec_main_exit_timestamp_monotonic().await?;
        let result = service.result().await?;
        Ok(at_rest(&active, has_job, service.main_pid().await?, ended, result))
    }

    /// Starts a transient unit. Its name must be free.
    ///
    /// # Errors
    /// [`SystemdError::NotConfined`] before anything is started; else systemd's own.
    pub async fn start_transient(&self, unit: &Transient) -> Result<(), SystemdError> {
        self.check_confined(unit).await?;
        let properties = vec![
            property("Description", Variant::from(unit.description.as_str())),
            property("ExecStartEx", Variant::from(vec![command(unit)])),
            property("TimeoutStartUSec", Variant::from(microseconds(unit.start_timeout))),
        ];
        let properties =
            properties.into_iter().collect::<zbus::Result<Vec<_>>>().map_err(|source| {
                SystemdError::Call { what: format!("preparing {}", unit.name), source }
            })?;
        let started = self.manager.start_transient_unit(
            unit.name.clone(),
            "fail".to_owned(),
            properties,
            Vec::new(),
        );
        let what = format!("starting {}", unit.name);
        call(Step::StartTransientUnit, what, started).await.map(drop)
    }

    /// Starts a unit that is installed, and does not wait for it.
    ///
    /// # Errors
    /// systemd's own.
    pub async fn start(&self, unit: &str) -> Result<(), SystemdError> {
        let started = self.manager.start_unit(unit.to_owned(), "replace".to_owned());
        call(Step::StartUnit, format!("starting {unit}"), started).await.map(drop)
    }

    /// Takes the result of a failed unit away, so that its start limit counts anew.
    ///
    /// # Errors
    /// systemd's own; a unit that is not loaded is no error.
    pub async fn reset_failed(&self, unit: &str) -> Result<(), SystemdError> {
        let reset = self.manager.reset_failed_unit(unit.to_owned());
        match call(Step::ResetFailedUnit, format!("resetting {unit}"), reset).await {
            Err(SystemdError::Call { source, .. })
                if name(&source).as_deref() == Some(NO_SUCH_UNIT) =>
            {
                Ok(())
            }
            reset => reset,
        }
    }

    /// Clears finished units whose names match any of the glob patterns: stops those that remain after
    /// exit, resets the failed ones. Units with a running process are left alone.
    ///
    /// # Errors
    /// systemd's own.
    pub async fn clear_finished(&self, patterns: &[String]) -> Result<(), SystemdError> {
        let listed = self.manager.list_units_by_patterns(Vec::new(), patterns.to_vec());
        for unit in call(Step::ListUnits, "listing finished operations", listed).await? {
            let (unit, active, sub) = (unit.0, unit.3, unit.4);
            match (active.as_str(), sub.as_str()) {
                ("active", "exited") => {
                    let stopped = self.manager.stop_unit(unit.clone(), "replace".to_owned());
                    call(Step::StopUnit, format!("clearing {unit}"), stopped).await?;
                }
                ("failed", _) => self.reset_failed(&unit).await?,
                _ => {}
            }
        }
        Ok(())
    }

    /// What systemd is still doing: unit and job type of every queued job.
    ///
    /// # Errors
    /// systemd's own.
    pub async fn jobs(&self) -> Result<Vec<String>, SystemdError> {
        let jobs = call(Step::ListJobs, "listing jobs", self.manager.list_jobs()).await?;
        Ok(jobs.into_iter().map(|job| format!("{} ({} {})", job.1, job.2, job.3)).collect())
    }

    /// An operation without its sandbox is not started.
    async fn check_confined(&self, unit: &Transient) -> Result<(), SystemdError> {
        let known = self.manager.unit_path();
        let directories = call(Step::UnitPath, "reading the unit directories", known).await?;
        for drop_in in &unit.drop_ins {
            if !directories.iter().any(|directory| Path::new(directory).join(drop_in).exists()) {
                let (unit, drop_in) = (unit.name.clone(), drop_in.clone());
                return Err(SystemdError::NotConfined { unit, drop_in });
            }
        }
        Ok(())
    }
}

fn property(name: &str, value: Variant<'_>) -> zbus::Result<(String, OwnedVariant)> {
    Ok((name.to_owned(), value.try_to_owned()?))
}

fn command(unit: &Transient) -> (String, Vec<String>, Vec<String>) {
    let arguments = std::iter::once(unit.program.clone()).chain(unit.arguments.iter().cloned());
    (unit.program.clone(), arguments.collect(), vec!["no-env-expand".to_owned()])
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Of a unit that nothing changes just now. The exit time tells one that ended from one that never ran.
fn at_rest(active: &str, has_job: bool, main_pid: u32, ended: u64, result: String) -> UnitState {
    let never_ran = active == "inactive" && ended == 0 && result == "success";
    match (main_pid, never_ran) {
        (0, true) if has_job => UnitState::Queued,
        (0, true) => UnitState::Absent,
        (0, false) => UnitState::Ended { result },
        _ => UnitState::Running,
    }
}

#[cfg(test)]
mod tests {
    use super::{UnitState, at_rest};

    #[test]
    fn what_a_units_properties_say() {
        let ended = |result: &str| UnitState::Ended { result: result.to_owned() };
        for (active, has_job, pid, exited, result, state) in [
            ("inactive", false, 0, 0, "success", UnitState::Absent),
            // systemd has taken the start, and not come to it: it is neither lost nor to be started again.
            ("inactive", true, 0, 0, "success", UnitState::Queued),
            ("inactive", false, 0, 7, "success", ended("success")),
            ("inactive", true, 0, 7, "success", ended("success")),
            ("inactive", false, 0, 0, "timeout", ended("timeout")),
            ("failed", false, 0, 7, "signal", ended("signal")),
            ("failed", true, 0, 7, "signal", ended("signal")),
            ("active", false, 0, 7, "success", ended("success")),
            ("active", false, 12, 0, "success", UnitState::Running),
        ] {
            let read = at_rest(active, has_job, pid, exited, result.to_owned());
            assert_eq!(read, state, "{active} {has_job} {pid} {exited} {result}");
        }
    }
}
