use tracing::warn;
use zbus::fdo::DBusProxy;
use zbus::names::BusName;

use super::bus::call;
use super::{Systemd, SystemdError};
use crate::contract::chain;
use crate::steps::Step;

/// logind's name on the bus.
const LOGIND: &str = "org.freedesktop.login1";

impl Systemd {
    /// Asks for the reboot: through logind, so that delay inhibitors such as kubelet's graceful shutdown
    /// are honoured; straight from systemd where logind is not on the bus, as after a restart of the bus alone.
    ///
    /// # Errors
    /// Refused, inhibited, unreachable. Nothing is rebooting then.
    pub async fn reboot(&self) -> Result<(), SystemdError> {
        match call(Step::Reboot, "asking logind for the reboot", self.login.reboot(false)).await {
            Err(error) if self.is_without_logind().await => {
                warn!(
                    "logind is not on the bus, asking systemd for the reboot, which asks no inhibitor: {}",
                    chain(&error)
                );
                let target = "reboot.target".to_owned();
                let started = self.manager.start_unit(target, "replace-irreversibly".to_owned());
                call(Step::StartUnit, "asking systemd for the reboot", started).await.map(drop)
            }
            asked => asked,
        }
    }

    /// False where nobody can tell: then the bus itself is gone.
    async fn is_without_logind(&self) -> bool {
        let asked = async {
            let name = BusName::try_from(LOGIND)?;
            Ok(DBusProxy::new(&self.connection).await?.name_has_owner(name).await?)
        };
        matches!(call(Step::NameHasOwner, "looking for logind", asked).await, Ok(false))
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
        if self.is_without_logind().await {
            return Ok(false);
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
