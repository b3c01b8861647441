//! When a request is due: once, after each interval, or as cron(8) has it. All times are UTC.

use pinfold_host::Refusal;
use std::time::{Duration, UNIX_EPOCH};

/// The shortest interval, in seconds,
const SHORTEST: u64 = 60;
/// and the longest: a year.
const LONGEST: u64 = 366 * DAY;
const DAY: u64 = 86_400;
/// How far back a time of cron's is looked for. What was missed before that is not made up for.
const LOOKED_BACK: u64 = 7 * DAY;

/// When a request is due, in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// At this time.
    Once(u64),
    /// So many seconds after its file was written, and again each time that they have passed.
    Every(u64),
    /// In the minutes that a line of cron's matches.
    Cron(Box<Cron>),
}

/// The five fields of a line of cron's, as sets of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether any day of the month, or of the week, will do.
    is_any_day: (bool, bool),
}

impl Schedule {
    /// Reads Pynchy's `schedule_type` and `schedule_value`.
    ///
    /// # Errors
    /// Returns what is wrong.
    pub(crate) fn read(kind: &str, value: &str) -> Result<Self, Refusal> {
        match kind {
            "once" => {
                let time = humantime::parse_rfc3339_weak(value).map_err(|_| {
                    format!("schedule_value {value:?} is no time such as 2026-02-01T15:30:00Z")
                })?;
                let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                Ok(Self::Once(since.as_secs()))
            }
            "interval" => {
                let millis = value.parse().map_err(|_| {
                    format!("schedule_value {value:?} is no number of milliseconds")
                })?;
                match Duration::from_millis(millis).as_secs() {
                    seconds @ SHORTEST..=LONGEST => Ok(Self::Every(seconds)),
                    _ => Err(Refusal::new(format!(
                        "the interval is not between a minute and a year: {value}"
                    ))),
                }
            }
            "cron" => Cron::read(value).map(|cron| Self::Cron(Box::new(cron))),
            other => Err(Refusal::new(format!(
                "schedule_type {other:?} is neither cron, interval nor once"
            ))),
        }
    }

    /// Returns the latest time after `after` and not after `now` that it was due. `written` is when its file was.
    #[must_use]
    pub fn due(&self, written: u64, after: u64, now: u64) -> Option<u64> {
        let due = match self {
            // A time that is over when the request comes is now.
            Self::Once(at) => return (*at <= now).then_some(*at),
            Self::Every(seconds) => {
                let times = now.saturating_sub(written) / seconds;
                (times > 0).then(|| written + times * seconds)
            }
            Self::Cron(cron) => {
                let first = after.max(written).max(now.saturating_sub(LOOKED_BACK)) / 60 + 1;
                let minutes = (first..=now / 60).rev();
                minutes.map(|minute| minute * 60).find(|time| cron.matches(*time))
            }
        };
        due.filter(|due| *due > after)
    }

    /// Returns whether nothing is left to be done when it was due.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Once(_))
    }
}

impl Cron {
    fn read(line: &str) -> Result<Self, Refusal> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(Refusal::new(format!(
                "schedule_value {line:?} has not the five fields of cron"
            )));
        };
        let mut weekdays_read = field(weekdays, 0, 7)?;
        // Sunday is both.
        if weekdays_read & 1 << 7 != 0 {
            weekdays_read |= 1;
        }
        Ok(Self {
            minutes: field(minutes, 0, 59)?,
            hours: field(hours, 0, 23)?,
            days: field(days, 1, 31)?,
            months: field(months, 1, 12)?,
            weekdays: weekdays_read,
            is_any_day: (days.starts_with('*'), weekdays.starts_with('*')),
        })
    }

    fn matches(&self, time: u64) -> bool {
        let has = |set: u64, number: u64| set & 1 << number != 0;
        let days = time / DAY;
        let (month, day) = month_and_day(days);
        // 1970 began on a Thursday.
        let (of_month, of_week) = (has(self.days, day), has(self.weekdays, (days + 4) % 7));
        // crontab(5): if both are restricted, either will do.
        let is_day = match self.is_any_day {
            (false, false) => of_month || of_week,
            _ => of_month && of_week,
        };
        is_day
            && has(self.months, month)
            && has(self.hours, time % DAY / 3600)
            && has(self.minutes, time % 3600 / 60)
    }
}

/// Reads a field: `*`, numbers, ranges, lists of them, each with a step.
fn field(text: &str, least: u64, most: u64) -> Result<u64, Refusal> {
    let wrong = || format!("{text:?} is no field of cron between {least} and {most}");
    let number = |text: &str| {
        // Neither a sign nor blanks.
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
        number.filter(|_| is_plain).ok_or_else(wrong)
    };
    let mut set = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => match step.parse::<usize>() {
                Ok(step @ 1..=60) => (range, step),
                _ => return Err(wrong().into()),
            },
            None => (part, 1),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (least, most),
            Some((from, to)) => (number(from)?, number(to)?),
            None if step > 1 => (number(range)?, most),
            None => (number(range)?, number(range)?),
        };
        if from > to {
            return Err(wrong().into());
        }
        (from..=to).step_by(step).for_each(|number| set |= 1 << number);
    }
    Ok(set)
}

/// Returns the month and the day in it of a day, counted from 1970-01-01, in the Gregorian calendar.
fn month_and_day(days: u64) -> (u64, u64) {
    // Years that begin in March have their leap day at the end; an era has 400 of them.
    let day_of_era = (days + 719_468) % 146_097;
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    (if month < 10 { month + 3 } else { month - 9 }, day - (153 * month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::{Schedule, month_and_day};

    fn at(text: &str) -> u64 {
        let time = humantime::parse_rfc3339_weak(text).unwrap();
        time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
    }

    fn due(kind: &str, value: &str, written: &str, now: &str) -> Option<String> {
        let schedule = Schedule::read(kind, value).unwrap();
        let due = schedule.due(at(written), 0, at(now))?;
        let due = std::time::UNIX_EPOCH + std::time::Duration::from_secs(due);
        Some(humantime::format_rfc3339(due).to_string())
    }

    #[test]
    fn cron_is_due_in_the_minutes_of_its_line() {
        // 2026-11-26 is a Thursday.
        let now = "2026-11-26 10:30:05";
        for (line, expected) in [
            ("* * * * *", "2026-11-26T10:30:00Z"),
            ("0 9 * * *", "2026-11-26T09:00:00Z"),
            ("45 10 * * *", "2026-11-25T10:45:00Z"),
            ("*/7 8-9 * * 1-5", "2026-11-26T09:56:00Z"),
            ("0 0 * * 0", "2026-11-22T00:00:00Z"),
            ("0 0 * * 7", "2026-11-22T00:00:00Z"),
            ("0 0 21 11 3", "2026-11-25T00:00:00Z"),
            ("5,25 10 26 11 *", "2026-11-26T10:25:00Z"),
            ("10/10 * * * *", "2026-11-26T10:30:00Z"),
        ] {
            let found = due("cron", line, "2026-01-01 00:00:00", now);
            assert_eq!(found.as_deref(), Some(expected), "{line}");
        }
        // Not before it was written, and not what was missed long ago.
        assert_eq!(due("cron", "0 9 * * *", "2026-11-26 09:00:00", now), None);
        assert_eq!(due("cron", "0 0 1 11 *", "2026-01-01 00:00:00", now), None);
        assert_eq!(due("cron", "0 0 30 2 *", "2026-01-01 00:00:00", now), None);
    }

    #[test]
    fn time_is_due_once() {
        let cron = Schedule::read("cron", "0 9 * * *").unwrap();
        let (nine, later) = (at("2026-11-26 09:00:00"), at("2026-11-26 10:00:00"));
        assert_eq!(cron.due(0, 0, later), Some(nine));
        assert_eq!(cron.due(0, nine, later), None);
        let every = Schedule::read("interval", "3600000").unwrap();
        assert_eq!(every.due(nine, 0, nine + 3599), None);
        assert_eq!(every.due(nine, 0, nine + 7300), Some(nine + 7200));
        assert_eq!(every.due(nine, nine + 7200, nine + 7300), None);
    }

    #[test]
    fn once_is_due_from_its_time_on() {
        let value = "2026-11-26T12:00:00Z";
        assert_eq!(due("once", value, "2026-11-26 10:00:00", "2026-11-26 11:59:59"), None);
        let late = due("once", value, "2026-11-27 10:00:00", "2026-11-27 10:00:00");
        assert_eq!(late.as_deref(), Some(value));
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for (kind, value) in [
            ("daily", "1"),
            ("interval", "59999"),
            ("interval", "-1"),
            ("interval", "99999999999999999999"),
            ("interval", "9999999999999"),
            ("once", "tomorrow"),
            ("once", "2026-11-26T12:00:00+02:00"),
            ("cron", "* * * *"),
            ("cron", "* * * * * *"),
            ("cron", "60 * * * *"),
            ("cron", "5-1 * * * *"),
            ("cron", "*/0 * * * *"),
            ("cron", "*/99999999999999999999 * * * *"),
            ("cron", "+1 * * * *"),
            ("cron", "1- * * * *"),
            ("cron", ", * * * *"),
            ("cron", "* * 0 * *"),
            ("cron", "* * * * MON"),
            ("cron", "* * * * 8"),
        ] {
            assert!(Schedule::read(kind, value).is_err(), "{kind} {value}");
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (text, expected) in [
            ("1970-01-01 00:00:00", (1, 1)),
            ("2000-02-29 00:00:00", (2, 29)),
            ("2024-12-31 23:59:59", (12, 31)),
            ("2100-03-01 00:00:00", (3, 1)),
        ] {
            assert_eq!(month_and_day(at(text) / 86_400), expected, "{text}");
        }
    }
}
