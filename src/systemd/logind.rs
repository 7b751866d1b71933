use super::bus::call;
use super::error::name;
use super::{Systemd, SystemdError};
use crate::steps::Step;

/// Nobody provides logind's name on the bus.
const NO_LOGIND: [&str; 2] =
    ["org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner"];

impl Systemd {
    /// Asks for the reboot: through logind, so that delay inhibitors such as kubelet's graceful shutdown
    /// are honoured; straight from systemd where there is no logind.
    ///
    /// # Errors
    /// Refused, inhibited, unreachable. Nothing is rebooting then.
    pub async fn reboot(&self) -> Result<(), SystemdError> {
        match call(Step::Reboot, "asking logind for the reboot", self.login.reboot(false)).await {
            Err(SystemdError::Call { source, .. })
                if name(&source).is_some_and(|name| NO_LOGIND.contains(&name.as_str())) =>
            {
                let target = "reboot.target".to_owned();
                let started = self.manager.start_unit(target, "replace-irreversibly".to_owned());
                call(Step::StartUnit, "asking systemd for the reboot", started).await.map(drop)
            }
            asked => asked,
        }
    }

    /// Whether a shutdown is under way, delayed ones included.
    ///
    /// # Errors
    /// systemd's own; a missing logind is no error.
    pub async fn is_shutting_down(&self) -> Result<bool, SystemdError> {
        let state =
            call(Step::SystemState, "reading systemd's state", self.manager.system_state()).await?;
        if state == "stopping" {
            return Ok(true);
        }
        let preparing = self.login.preparing_for_shutdown();
        let what = "asking logind whether it shuts down";
        Ok(call(Step::PreparingForShutdown, what, preparing).await.unwrap_or(false))
    }

    /// Who blocks a shutdown: "who (why)" of each block inhibitor.
    ///
    /// # Errors
    /// logind's own.
    pub async fn shutdown_inhibitors(&self) -> Result<Vec<String>, SystemdError> {
        let listed = self.login.list_inhibitors();
        let held = call(Step::ListInhibitors, "listing inhibitors", listed).await?;
        Ok(held
            .into_iter()
            .filter(|held| held.0.split(':').any(|what| what == "shutdown") && held.3 != "delay")
            .map(|held| format!("{} ({})", held.1, held.2))
            .collect())
    }
}
