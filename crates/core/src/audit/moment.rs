//! Parses and prints points in time.

use std::time::{SystemTime, UNIX_EPOCH};

/// A text that is no point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time: use 15m, 2h, 7d or 2026-07-28T10:00:00Z")]
pub struct InvalidTime;

/// `15m`, `2h`, `7d` ago; `2026-07-28`, `2026-07-28T10:00:00Z`; milliseconds since 1970.
pub fn parse(text: &str) -> Result<u64, InvalidTime> {
    if let Ok(ms) = text.parse::<u64>() {
        return Ok(ms);
    }
    if let Some((count, unit)) = text.split_at_checked(text.len().saturating_sub(1))
        && let Ok(count) = count.parse::<u64>()
    {
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return Err(InvalidTime),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_millis() as u64;
        return Ok(now.saturating_sub(count.saturating_mul(seconds * 1000)));
    }
    date(text).ok_or(InvalidTime)
}

fn date(text: &str) -> Option<u64> {
    let (day, time) = text
        .trim_end_matches('Z')
        .split_once('T')
        .unwrap_or((text, "00:00:00"));
    let mut day = day.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, dom) = (day.next()??, day.next()??, day.next()??);
    let mut time = time.split(':').map(|part| part.parse::<f64>().ok());
    let (hour, minute) = (time.next()??, time.next()??);
    let second = time.next().unwrap_or(Some(0.0))?;
    let days = days_from_civil(year, month, dom);
    let ms = days as f64 * 86_400_000.0 + ((hour * 60.0 + minute) * 60.0 + second) * 1000.0;
    (ms >= 0.0 && (1..=12).contains(&month) && (1..=31).contains(&dom)).then_some(ms as u64)
}

/// `2026-07-28T10:00:00.000Z`
pub fn show(ms: u64) -> String {
    let (days, rest) = ((ms / 86_400_000) as i64, ms % 86_400_000);
    let (year, month, day) = civil_from_days(days);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, ms) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Days since 1970 in the Gregorian calendar; years begin in March, so that the leap day is last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_are_shown() {
        for text in [
            "1970-01-01T00:00:00.000Z",
            "2024-02-29T23:59:59.250Z",
            "2026-07-28T10:00:00.000Z",
        ] {
            assert_eq!(show(parse(text).unwrap()), text);
        }
        assert_eq!(
            parse("2026-07-28").unwrap(),
            parse("2026-07-28T00:00:00Z").unwrap()
        );
        assert_eq!(parse("1785232800000").unwrap(), 1_785_232_800_000);
        let hour = parse("1h").unwrap();
        assert!(parse("30m").unwrap() > hour && hour > parse("1d").unwrap());
        for text in ["", "soon", "5y", "2026-13-01", "2026-07"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
