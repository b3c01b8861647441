//! Paths as the kernel lists mounts.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// Returns the path of a field of proc_pid_mountinfo(5), which has blanks, tabs, newlines and backslashes as three octal
/// digits.
#[must_use]
pub fn of_mount_field(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let byte = after.get(..3).filter(|_| *first == b'\\').and_then(octal);
        path.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(path))
}

fn octal(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0_u8, |value, digit| {
        let digit = (b'0'..=b'7').contains(digit).then(|| digit - b'0')?;
        value.checked_mul(8)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::of_mount_field;

    #[test]
    fn digits_behind_a_backslash_are_a_byte() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b"/a\\040b\\134c", b"/a b\\c"),
            (b"/tab\\011line\\012", b"/tab\tline\n"),
            (b"/\xff\\0400", b"/\xff 0"),
            (b"/not\\08x", b"/not\\08x"),
            (b"/sign\\+40", b"/sign\\+40"),
            (b"/end\\04", b"/end\\04"),
        ];
        for (field, path) in cases {
            assert_eq!(of_mount_field(field).as_os_str(), OsStr::from_bytes(path));
        }
    }
}
