//! The users and groups of a base that is this machine's own system: those that packages know by name.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The highest id of a system's user or group (login.defs(5), `SYS_UID_MAX`), and the one of nobody.
const HIGHEST: u32 = 999;
const NOBODY: u32 = 65534;

/// Writes passwd(5) and group(5) without people, and shadow(5) and gshadow(5) without passwords.
///
/// # Errors
/// Returns the error of reading and writing.
pub(super) fn make(etc: &Path) -> io::Result<()> {
    // People's own names need not be UTF-8.
    let text = |path| Ok::<_, io::Error>(String::from_utf8_lossy(&fs::read(path)?).into_owned());
    let (users, shadow) = users(&text("/etc/passwd")?);
    let (groups, gshadow) = groups(&text("/etc/group")?);
    for (name, content, mode) in [
        ("passwd", users, 0o644),
        ("group", groups, 0o644),
        ("shadow", shadow, 0o640),
        ("gshadow", gshadow, 0o640),
    ] {
        let place = etc.join(name);
        fs::write(&place, content)?;
        fs::set_permissions(place, Permissions::from_mode(mode))?;
    }
    fs::write(
        etc.join("nsswitch.conf"),
        "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nprotocols: files\n\
         services: files\n",
    )
}

/// Lines for passwd(5), without what they say of a user, and for shadow(5).
pub(super) fn users(passwd: &str) -> (String, String) {
    let (mut users, mut shadow) = (String::new(), String::new());
    for line in passwd.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, shell] = fields[..] else { continue };
        if is_of_system(uid) {
            users += &format!("{name}:x:{uid}:{gid}::{home}:{shell}\n");
            shadow += &format!("{name}:*:19000:0:99999:7:::\n");
        }
    }
    (users, shadow)
}

/// Lines for group(5), without members, and for gshadow(5).
pub(super) fn groups(group: &str) -> (String, String) {
    let (mut groups, mut gshadow) = (String::new(), String::new());
    for line in group.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, gid, _] = fields[..] else { continue };
        if is_of_system(gid) {
            groups += &format!("{name}:x:{gid}:\n");
            gshadow += &format!("{name}:*::\n");
        }
    }
    (groups, gshadow)
}

fn is_of_system(id: &str) -> bool {
    id.parse().is_ok_and(|id: u32| id <= HIGHEST || id == NOBODY)
}
