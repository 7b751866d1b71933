use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point of wall-clock time, to the second, printed as RFC 3339 in UTC with `Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utc(Timestamp);

impl Utc {
    /// The wall clock now. For what people read: limits and intervals use a monotonic clock.
    pub fn now() -> Self {
        Self::from_timestamp(Timestamp::now())
    }

    /// From seconds since 1970; out-of-range values become 1970.
    pub fn from_second(second: i64) -> Self {
        Self(Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH))
    }

    /// Seconds since 1970.
    pub fn second(self) -> i64 {
        self.0.as_second()
    }

    /// Whole seconds, rounded down.
    fn from_timestamp(at: Timestamp) -> Self {
        Self::from_second(at.as_second())
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}", self.0)
    }
}

impl Serialize for Utc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Utc {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Timestamp::deserialize(deserializer).map(Self::from_timestamp)
    }
}
