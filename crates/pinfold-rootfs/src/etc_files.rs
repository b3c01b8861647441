//! Files of /etc that describe the sandbox instead of the host, and what the session's system has: its
//! shell and its C library.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use pinfold_boundary::{Entry, Place};
use pinfold_policy::path::{InsidePath, PathError};

use crate::system::Stack;
use crate::userland::HOME;

/// Returns the login shell inside: the best that the session's system has.
#[must_use]
pub fn shell(stack: Option<&Stack>) -> &'static str {
    if let Some(stack) = stack {
        return stack.shell();
    }
    if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" }
}

/// Returns whether programs of the session's system are linked to musl: what its shell asks the kernel
/// for as its loader (`PT_INTERP`, elf(5)), which lies in the first page. A loader of the other kind may
/// be installed as well, so its file says nothing.
///
/// # Errors
/// Returns an error for a shell that cannot be read.
pub fn is_musl(stack: Option<&Stack>) -> io::Result<bool> {
    const LOADER: &[u8] = b"/ld-musl-";
    const PAGE: u64 = 4096;
    let shell = Path::new("/bin/sh");
    let mut page = Vec::new();
    match stack {
        Some(stack) => page = stack.read(shell, PAGE)?.ok_or(io::ErrorKind::NotFound)?,
        None => drop(fs::File::open(shell)?.take(PAGE).read_to_end(&mut page)?),
    }
    Ok(page.windows(LOADER.len()).any(|window| window == LOADER))
}

/// What [`generated`] makes.
const GENERATED: [&str; 6] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
];

/// Returns whether a path inside is a file that describes the session instead of the host. It can be
/// read and not written.
#[must_use]
pub fn is_generated(path: &Path) -> bool {
    GENERATED.iter().any(|generated| path == Path::new(generated))
}

/// Files that describe the sandbox instead of the host (passwd(5), hosts(5), nsswitch.conf(5)).
///
/// # Errors
/// Returns no error: the paths are constants.
pub fn generated(uid: u32, gid: u32, stack: Option<&Stack>) -> Result<Vec<Entry>, PathError> {
    let shell = shell(stack);
    let known = |file: &str, id: u32| others(stack, file, id);
    let files: [(&str, String); 6] = [
        (
            "/etc/passwd",
            format!(
                "root:x:0:0:root:/root:/usr/sbin/nologin\n\
                 agent:x:{uid}:{gid}:agent:{HOME}:{shell}\n\
                 nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n{}",
                known("/etc/passwd", uid)
            ),
        ),
        (
            "/etc/group",
            format!("root:x:0:\nagent:x:{gid}:\nnogroup:x:65534:\n{}", known("/etc/group", gid)),
        ),
        ("/etc/hosts", "127.0.0.1 localhost pinfold\n::1 localhost pinfold\n".to_owned()),
        ("/etc/hostname", "pinfold\n".to_owned()),
        ("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n".to_owned()),
        (
            "/etc/nsswitch.conf",
            "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nprotocols: files\n\
             services: files\n"
                .to_owned(),
        ),
    ];
    // A system that is built keeps its own users.
    let is_own = |path: &str| {
        uid == 0 && ["passwd", "group", "nsswitch.conf"].iter().any(|name| path.ends_with(name))
    };
    files
        .into_iter()
        .filter(|(path, _)| !is_own(path))
        .map(|(path, content)| {
            let place = Place::File { content: content.into_bytes(), mode: 0o644, keep: false };
            Ok(Entry { path: InsidePath::new(path)?, place })
        })
        .collect()
}

/// Returns the lines of a stack's own users or groups, except those that are described here (passwd(5),
/// group(5)).
fn others(stack: Option<&Stack>, file: &str, own: u32) -> String {
    const DESCRIBED: [&str; 4] = ["root", "agent", "nobody", "nogroup"];
    const LARGEST: u64 = 1 << 20;
    // One that cannot be read names nobody.
    let read = stack.and_then(|stack| stack.read(Path::new(file), LARGEST).ok().flatten());
    let bytes = read.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let is_other = |line: &&str| {
        let mut fields = line.split(':');
        let name = fields.next().unwrap_or_default();
        let id = fields.nth(1).unwrap_or_default();
        !name.is_empty() && !DESCRIBED.contains(&name) && id != own.to_string()
    };
    text.lines().filter(is_other).fold(String::new(), |all, line| all + line + "\n")
}
