//! What every inside sees of the host by default: its programs and libraries, read-only, and of
//! /etc what programs need to run. No home, no /var, no /srv, no /root, no machine id.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use pinfold_boundary::{Entry, Place};
use pinfold_policy::path::{HostPath, InsidePath, PathError};

use crate::system::Stack;

/// Directories of programs and libraries (Filesystem Hierarchy Standard 3.0; Nix).
pub const PROGRAMS: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store"];

/// Of /etc: the loader's cache, certificates, alternatives, time zone, shells' and tools'
/// system-wide settings. Nothing that names users, hosts, networks or services of this machine.
pub(crate) const CONFIGURATION: [&str; 28] = [
    "alternatives",
    "bash.bashrc",
    "bash_completion.d",
    "ca-certificates",
    "ca-certificates.conf",
    "chromium.d",
    "crypto-policies",
    "debian_version",
    "fonts",
    "inputrc",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "lsb-release",
    "magic",
    "maven",
    "mime.types",
    "os-release",
    "pki",
    "profile",
    "profile.d",
    "protocols",
    "services",
    "ssl",
    "terminfo",
];

/// Private, writable, empty: gone with the session.
pub const PRIVATE: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", HOME];

/// Home inside, for every agent.
pub const HOME: &str = "/home/agent";

/// The name of the host that a sandbox has (sethostname(2)).
pub const HOST_NAME: &str = "pinfold";

/// The first directories of `PATH` inside, before an agent's own.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The login shell inside: the best that the session's system has.
#[must_use]
pub fn shell(stack: Option<&Stack>) -> &'static str {
    if let Some(stack) = stack {
        return stack.shell();
    }
    if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" }
}

/// Whether programs of the session's system are linked to musl: what its shell asks the kernel for as its
/// loader (`PT_INTERP`, elf(5)), which lies in the first page. A loader of the other kind may be
/// installed as well, so its file says nothing.
///
/// # Errors
/// A shell that cannot be read.
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

/// Whether this process is in a sandbox of pinfold's: each has this directory and this host name.
#[must_use]
pub fn is_inside() -> bool {
    let is_named = rustix::system::uname().nodename().to_bytes() == HOST_NAME.as_bytes();
    is_named && Path::new("/run/pinfold").is_dir()
}

/// Whether a path inside lies in a place that is private to the session.
pub fn is_private(path: &Path) -> bool {
    PRIVATE.iter().any(|private| path.starts_with(private))
}

/// One place of the userland as it lies on the host.
pub enum Piece {
    /// To be granted for reading.
    Granted(HostPath, InsidePath),
    /// A symbolic link, which is made again: what it leads to is granted or is not there.
    Link(InsidePath, OsString),
}

/// Looks at what of the userland this host has.
///
/// # Errors
/// Never on a system whose own paths are valid.
pub fn pieces() -> Result<Vec<Piece>, PathError> {
    let programs = PROGRAMS.iter().map(PathBuf::from);
    let configuration = CONFIGURATION.iter().map(|name| Path::new("/etc").join(name));
    let mut pieces = Vec::with_capacity(PROGRAMS.len() + CONFIGURATION.len());
    for path in programs.chain(configuration) {
        // One call says which of the three it is (readlink(2)).
        match fs::read_link(&path) {
            Ok(target) => {
                pieces.push(Piece::Link(InsidePath::new(&path)?, target.into_os_string()));
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                pieces.push(Piece::Granted(HostPath::new(real(&path))?, InsidePath::new(&path)?));
            }
            Err(_) => {}
        }
    }
    Ok(pieces)
}

/// Where a piece lies without links: one that is no directory's first may lie behind one (`/nix`).
pub fn real(path: &Path) -> PathBuf {
    match path.components().count() {
        0..=2 => path.to_owned(),
        _ => fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
    }
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

/// Whether a path inside is a file that describes the session instead of the host. It can be read
/// and not written.
#[must_use]
pub fn is_generated(path: &Path) -> bool {
    GENERATED.iter().any(|generated| path == Path::new(generated))
}

/// Files that describe the sandbox instead of the host (passwd(5), hosts(5), nsswitch.conf(5)).
///
/// # Errors
/// Never: the paths are constants.
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

/// The lines of a stack's own users or groups, except those that are described here (passwd(5),
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
