//! Times as JavaScript writes them (`toISOString`).

use std::time::{SystemTime, UNIX_EPOCH};

use crate::json::Value;
use crate::time::Timestamp;

/// Returns a time as a text with milliseconds, in UTC.
#[must_use]
pub fn write(time: Timestamp) -> String {
    // The year 9999 is the last one that has a text.
    const LAST: u64 = 253_402_300_799_999;
    let time = Timestamp::from_millis(time.millis().min(LAST));
    humantime::format_rfc3339_millis(SystemTime::from(time)).to_string()
}

/// Returns a time that may be missing.
#[must_use]
pub fn value(time: Option<Timestamp>) -> Value {
    time.map(write).into()
}

/// Reads a time in UTC (RFC 3339).
#[must_use]
pub fn read(text: &str) -> Option<Timestamp> {
    let time = humantime::parse_rfc3339(text).ok()?;
    let millis = time.duration_since(UNIX_EPOCH).ok()?.as_millis();
    u64::try_from(millis).ok().map(Timestamp::from_millis)
}

#[cfg(test)]
mod tests {
    use crate::time::Timestamp;

    use super::{read, write};

    #[test]
    fn time_is_read_as_it_is_written() {
        let text = "2026-11-24T06:50:13.035Z";
        assert_eq!(write(read(text).unwrap()), text);
        assert_eq!(read("2026-11-24"), None);
        assert_eq!(write(Timestamp::from_millis(u64::MAX)), "9999-12-31T23:59:59.999Z");
    }
}
