//! Times of records, and how long something took.

use std::fmt;
use std::time::UNIX_EPOCH;

/// Returns the milliseconds since 1970 of a time in RFC 3339.
pub(crate) fn millis(text: &str) -> Option<u64> {
    let time = humantime::parse_rfc3339_weak(text).ok()?;
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

/// A number of milliseconds, for people.
pub(crate) struct Took(pub(crate) u64);

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1000;
        match seconds {
            0 => write!(f, "{} ms", self.0),
            1..60 => write!(f, "{seconds}.{} s", self.0 % 1000 / 100),
            60..3600 => write!(f, "{} min {} s", seconds / 60, seconds % 60),
            _ => write!(f, "{} h {} min", seconds / 3600, seconds % 3600 / 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Took, millis};

    #[test]
    fn durations_have_two_units_at_most() {
        let shown = [0, 999, 1000, 59_949, 60_000, 3_599_999, 3_600_000, 90_061_000];
        let shown = shown.map(|millis| Took(millis).to_string());
        let expected = [
            "0 ms",
            "999 ms",
            "1.0 s",
            "59.9 s",
            "1 min 0 s",
            "59 min 59 s",
            "1 h 0 min",
            "25 h 1 min",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn text_that_is_no_time_has_none() {
        assert_eq!(millis("1970-01-01T00:00:01.250Z"), Some(1250));
        for wrong in ["", "-", "1969-12-31T23:59:59Z", "yesterday"] {
            assert_eq!(millis(wrong), None, "{wrong}");
        }
    }
}
