//! The mounts of a tree, as a list: for a kernel that knows only the mounts it is given.

use std::fs;

use pinfold_policy::path::of_mount_field;
use rustix::fs::{AtFlags, FileType, StatxFlags};
use rustix::io::Errno;

/// A mount below the root of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    /// Where it is, below the root of the tree.
    pub(super) path: String,
    pub(super) is_read_only: bool,
}

/// Returns what is mounted below `root` in this process's namespace and can be seen there, from the root down,
/// except these paths below it, which an engine fills itself.
///
/// # Errors
/// Returns the error of reading /proc/self/mountinfo; `EILSEQ` for a path that no configuration can
/// name.
pub(super) fn below(root: &str, but: &[&str]) -> Result<Vec<Listed>, Errno> {
    let read = read()?;
    let lines = read
        .split(|byte| *byte == b'\n')
        .filter(|line| may_be_below(line, root))
        .map(str::from_utf8)
        .collect::<Result<Vec<_>, _>>();
    let mounts =
        lines.map_err(|_| Errno::ILSEQ)?.into_iter().filter_map(|line| parse(line, root, but));
    let seen = mounts.filter(|(id, listed)| is_seen(*id, &format!("{root}{}", listed.path)));
    let mut all: Vec<Listed> = seen.map(|(_, listed)| listed).collect();
    // What is nearer to the root has to be there first; in this file it need not be.
    all.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(all)
}

/// Makes sure that the path of every mount in this process's namespace is text.
///
/// # Errors
/// Returns `EILSEQ` if one is not; what reading /proc/self/mountinfo says.
pub(super) fn are_text() -> Result<(), Errno> {
    str::from_utf8(&read()?).map(drop).map_err(|_| Errno::ILSEQ)
}

fn read() -> Result<Vec<u8>, Errno> {
    let read = fs::read("/proc/self/mountinfo");
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Returns whether a line is worth reading. What is mounted elsewhere may have any name.
fn may_be_below(line: &[u8], root: &str) -> bool {
    let point = line.split(|byte| *byte == b' ').nth(4);
    point.is_some_and(|point| point.starts_with(root.as_bytes()))
}

/// Returns whether who follows the path comes to this mount, and not to one above it.
fn is_seen(id: u64, path: &str) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = rustix::fs::statx(rustix::fs::CWD, path, flags, StatxFlags::MNT_ID);
    // The engine's kernel mounts directories and files, and nothing on a link.
    let is_link = |mode: u16| FileType::from_raw_mode(mode.into()) == FileType::Symlink;
    found.is_ok_and(|found| found.stx_mnt_id == id && !is_link(found.stx_mode))
}

/// Returns one line (proc_pid_mountinfo(5)): the first field is the mount's number, the fifth its place,
/// the sixth its options.
fn parse(line: &str, root: &str, but: &[&str]) -> Option<(u64, Listed)> {
    let mut fields = line.split(' ');
    let id = fields.next()?.parse().ok()?;
    let mut fields = fields.skip(3);
    let point = of_mount_field(fields.next()?.as_bytes()).into_os_string().into_string().ok()?;
    let options = fields.next()?;
    let path = point.strip_prefix(root).filter(|path| path.starts_with('/'))?;
    let is_below = |own: &str| {
        path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if but.iter().any(|own| is_below(own)) {
        return None;
    }
    let is_read_only = options.split(',').any(|option| option == "ro");
    Some((id, Listed { path: path.to_owned(), is_read_only }))
}

#[cfg(test)]
mod tests {
    use super::{Listed, may_be_below, parse};

    #[test]
    fn directory_mounted_elsewhere_may_have_any_name() {
        let line =
            |point: &[u8]| [b"36 35 98:0 /a ", point, b" rw shared:1 - ext4 /dev/x rw"].concat();
        assert!(!may_be_below(&line(b"/mnt/\xff/tmp/root/a"), "/tmp/root"));
        assert!(may_be_below(&line(b"/tmp/root/\xff"), "/tmp/root"));
    }

    #[test]
    fn a_line_is_a_mount_below_the_root_or_none() {
        let line = |point: &str, options: &str| {
            format!("36 35 98:0 /a {point} {options} shared:1 - ext4 /dev/x rw")
        };
        let listed =
            |path: &str, is_read_only| Some((36, Listed { path: path.to_owned(), is_read_only }));
        assert_eq!(
            parse(&line("/r/a\\040b\\134c", "ro,nosuid"), "/r", &["/proc", "/dev"]),
            listed("/a b\\c", true)
        );
        assert_eq!(
            parse(&line("/r/devices", "rw,nodev"), "/r", &["/proc", "/dev"]),
            listed("/devices", false)
        );
        for other in ["/r", "/rest/a", "/r/dev", "/r/dev/pts", "/r/proc", "/"] {
            assert_eq!(parse(&line(other, "rw"), "/r", &["/proc", "/dev"]), None, "{other}");
        }
    }
}
