//! Standard output: lines, and JSON for programs, and for terminals all the same.

use std::fmt;
use std::io::{self, Write as _};
use std::time::SystemTime;

use pinfold_policy::path::{is_plain, plain_line};
use serde::Serialize;

use crate::exit::Failure;

/// Prints a line.
macro_rules! say {
    ($($words:tt)*) => { $crate::print::put(format_args!("{}\n", format_args!($($words)*))) };
}
pub(crate) use say;

/// Prints text. For commands that only show something: where it cannot be written they end, as
/// SIGPIPE ends them where the reader has seen enough.
pub(crate) fn put(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) else { return };
    if error.kind() == io::ErrorKind::BrokenPipe {
        pinfold_host::sys::die_of_broken_pipe();
    }
    let _ = Failure::new(format!("cannot write to standard output: {error}")).show();
    std::process::exit(1);
}

/// Prints a value over several lines.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    say!("{}", plain(&serde_json::to_string_pretty(value).map_err(Failure::new)?));
    Ok(())
}

/// Prints a value on one line.
pub(crate) fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    say!("{}", plain(&serde_json::to_string(value).map_err(Failure::new)?));
    Ok(())
}

/// Returns JSON that drives no terminal and hides nothing on one, wherever its texts come from. Of control
/// characters the writer escapes the lower ones alone; any character of a text may be escaped (RFC 8259,
/// section 7).
pub(crate) fn plain(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for character in json.chars() {
        if character == '\n' || is_plain(character) {
            plain.push(character)
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                plain.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    plain
}

/// Returns a text for a terminal: lines and tabs as they are, escapes for all else that is not plain.
pub(crate) fn plain_text(text: &str) -> String {
    let line = |line: &str| {
        let parts: Vec<_> = line.split('\t').map(plain_line).collect();
        parts.join("\t")
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// A number of bytes, for people.
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.into_iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) => write!(f, "{:.1} {name}", self.0 as f64 / unit as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}

/// How long before a time another one was, for people.
pub(crate) struct Ago(pub(crate) SystemTime, pub(crate) SystemTime);

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(age) = self.1.duration_since(self.0) else { return f.pad("just now") };
        let seconds = age.as_secs();
        let units = [(86_400, "days"), (3_600, "hours"), (60, "min"), (1, "s")];
        // Two of a unit at least: one day is 24 hours.
        let unit = units.into_iter().find(|(unit, _)| seconds >= 2 * unit);
        match unit {
            Some((unit, name)) => f.pad(&format!("{} {name} ago", seconds / unit)),
            None => f.pad("just now"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{Ago, Size, plain, plain_text};

    #[test]
    fn escaped_json_is_equal_and_cannot_control_a_terminal() {
        let value = serde_json::json!({ "a": "\u{9b}2J\u{7f}\u{202e}ü\u{1b}\n", "b": [1], "\u{e0041}": "\u{200b}" });
        for json in [value.to_string(), format!("{value:#}")] {
            let json = plain(&json);
            assert!(json.contains(r"\u009b2J\u007f\u202eü\u001b\n"), "{json}");
            assert!(json.contains(r"\udb40\udc41") && json.contains(r"\u200b"), "{json}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), value);
        }
    }

    #[test]
    fn sizes_have_one_digit_after_the_point() {
        let shown = [0, 1023, 1024, 1_600_000, 5 << 30].map(|bytes| Size(bytes).to_string());
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 MiB", "5.0 GiB"]);
    }

    #[test]
    fn ages_have_one_unit() {
        let ago = |seconds| Ago(UNIX_EPOCH, UNIX_EPOCH + Duration::from_secs(seconds)).to_string();
        let shown = [0, 59, 119, 120, 7_199, 7_200, 172_799, 172_800].map(ago);
        let expected = [
            "just now",
            "59 s ago",
            "119 s ago",
            "2 min ago",
            "119 min ago",
            "2 hours ago",
            "47 hours ago",
            "2 days ago",
        ];
        assert_eq!(shown, expected);
        let later = UNIX_EPOCH + Duration::from_secs(5);
        assert_eq!(Ago(later, UNIX_EPOCH).to_string(), "just now");
    }

    #[test]
    fn untrusted_text_drives_no_terminal() {
        let text = "# Title\r\n\tcode \u{1b}]0;owned\u{7}\n\u{9b}2J \u{202e}x\n";
        let shown = plain_text(text);
        assert_eq!(shown, "# Title\\r\n\tcode \\u{1b}]0;owned\\u{7}\n\\u{9b}2J \\u{202e}x\n");
    }
}
