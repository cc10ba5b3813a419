//! Time of day, and time since the machine started.
//!
//! Deadlines that survive a restart of the program cannot use tokio's clock, and deadlines that survive a step of the
//! wall clock cannot use the wall clock. `Moment` has both; the boot id tells whether two moments may be compared by
//! boot time.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// One reading of all clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since 1970, UTC; may jump.
    pub wall_ms: i64,
    /// Milliseconds since boot, sleep included; never jumps.
    pub boot_ms: i64,
    /// The boot that `boot_ms` counts from.
    pub boot_id: Arc<str>,
}

impl Moment {
    /// Wall time as `2026-07-28T09:30:00.000Z`.
    pub fn iso(&self) -> String {
        iso(self.wall_ms)
    }
}

pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Moment;
}

/// The machine's own clocks.
pub struct SystemClock {
    boot_id: Arc<str>,
}

impl SystemClock {
    pub fn new() -> Self {
        // Without a boot id every start of the program counts as a boot, so deadlines are compared by wall time.
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|text| text.trim().to_owned())
            .unwrap_or_else(|_| crate::random::uuid());
        Self {
            boot_id: boot_id.into(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Moment {
            wall_ms: wall_ms() as i64,
            boot_ms: boot.tv_sec * 1000 + boot.tv_nsec / 1_000_000,
            boot_id: self.boot_id.clone(),
        }
    }
}

/// Wall time, in milliseconds since 1970.
pub fn wall_ms() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH);
    wall.map_or(0, |since| since.as_millis() as u64)
}

/// Milliseconds since 1970 as ISO 8601 in UTC. Sorts as text in the order of time.
pub fn iso(wall_ms: i64) -> String {
    let days = wall_ms.div_euclid(86_400_000);
    let ms = wall_ms.rem_euclid(86_400_000);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        ms / 3_600_000,
        ms / 60_000 % 60,
        ms / 1000 % 60,
        ms % 1000
    )
}

/// The Gregorian date of a day counted from 1970-01-01. Years begin in March here, so that the leap day is the last
/// of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let since_0000_03_01 = days + 719_468;
    let era = since_0000_03_01.div_euclid(146_097);
    let day_of_era = since_0000_03_01.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(iso(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso(951_827_696_789), "2000-02-29T12:34:56.789Z");
        assert_eq!(iso(1_785_196_800_000), "2026-07-28T00:00:00.000Z");
        assert_eq!(iso(-1), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn boot_time_does_not_go_back() {
        let clock = SystemClock::new();
        let first = clock.now();
        let second = clock.now();
        assert!(second.boot_ms >= first.boot_ms);
        assert_eq!(first.boot_id, second.boot_id);
    }
}
