use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;
use zbus::Connection;
use zbus::connection::Builder;
use zbus::proxy::CacheProperties;
use zbus_systemd::{login1, systemd1};

use super::SystemdError;
use crate::steps::{self, Step};

/// Of one call on the bus, and of connecting to it.
const DEADLINE: Duration = Duration::from_secs(20);

/// A connection to the system bus, subscribed to systemd's signals.
#[derive(Debug, Clone)]
pub struct Systemd {
    pub(super) connection: Connection,
    pub(super) manager: systemd1::ManagerProxy<'static>,
    pub(super) login: login1::ManagerProxy<'static>,
}

impl Systemd {
    /// # Errors
    /// [`SystemdError::Connect`], [`SystemdError::ConnectTimedOut`], and whatever subscribing says.
    pub async fn connect() -> Result<Self, SystemdError> {
        let opened = timeout(DEADLINE, Self::open());
        let systemd = match steps::awaited(Step::BusConnect, "", opened).await {
            Ok(opened) => opened.map_err(|source| SystemdError::Connect { source })?,
            Err(_elapsed) => return Err(SystemdError::ConnectTimedOut { after: DEADLINE }),
        };
        call(Step::Subscribe, "subscribing to systemd's signals", systemd.manager.subscribe())
            .await?;
        Ok(systemd)
    }

    async fn open() -> zbus::Result<Self> {
        let connection: Connection = Builder::system().method_timeout(DEADLINE).build().await?;
        let manager = systemd1::ManagerProxy::builder(&connection)
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        let login = login1::ManagerProxy::builder(&connection)
            .cache_properties(CacheProperties::No)
            .build()
            .await?;
        Ok(Self { connection, manager, login })
    }
}

/// One call, with a name for its error.
pub(super) async fn call<T>(
    step: Step,
    what: impl AsRef<str>,
    answer: impl Future<Output = zbus::Result<T>>,
) -> Result<T, SystemdError> {
    let what = what.as_ref();
    let failed = |source| SystemdError::Call { what: what.to_owned(), source };
    steps::awaited(step, what, answer).await.map_err(failed)
}
