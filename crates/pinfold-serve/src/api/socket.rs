//! The socket at which clients come in.

use std::fs;
use std::io::{self, BufReader};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use pinfold_host::owned;
use pinfold_tools::Incoming;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::net::sockopt::socket_peercred;

use super::Api;

/// Clients at once.
const CLIENTS: usize = 256;

/// Listens at this path and serves every client of the same user, each in a thread of its own, until
/// the process ends; says so once clients can come. The directory is made, for its user alone, if it
/// is not there.
///
/// # Errors
/// Returns an error for a directory that others can use, another server at the same path, or what
/// bind(2) says.
pub fn listen(api: &Api, path: &Path, is_bound: impl FnOnce()) -> io::Result<()> {
    let listener = bind(path)?;
    is_bound();
    let clients = Arc::new(AtomicUsize::new(0));
    for socket in listener.1.incoming() {
        let socket = match socket {
            Ok(socket) => socket,
            // A client that has gone, or no more descriptors: the next may do better.
            Err(_) => {
                thread::sleep(std::time::Duration::from_millis(20));
                continue;
            }
        };
        if !is_own(&socket) || clients.load(Ordering::Relaxed) >= CLIENTS {
            // Closing says it all; others are not even sent that.
            continue;
        }
        let (api, counted) = (api.clone(), Counted::one_of(&clients));
        // Without a thread the socket is closed, which says it all.
        let _ = thread::Builder::new().name("client".to_owned()).spawn(move || {
            // A client that breaks off has ended, as one that says goodbye has.
            let _ = serve(&api, socket);
            drop(counted);
        });
    }
    Ok(())
}

/// One of the clients, until it is dropped, be it by a panic.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn one_of(clients: &Arc<AtomicUsize>) -> Self {
        clients.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(clients))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(api: &Api, socket: UnixStream) -> io::Result<()> {
    let reader = BufReader::new(Incoming(socket.try_clone()?));
    api.serve(reader, socket)
}

/// Returns whether the peer is the user: the directory keeps others away, but a descriptor may still have
/// been passed on (unix(7)).
fn is_own(socket: &UnixStream) -> bool {
    socket_peercred(socket).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

/// Returns the lock that distinguishes a live server from what one has left behind, and the socket.
fn bind(path: &Path) -> io::Result<(rustix::fd::OwnedFd, UnixListener)> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let directory = path.parent().filter(|above| *above != Path::new("")).unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(named)?;
    let about = fs::metadata(directory).map_err(named)?;
    let own = rustix::process::geteuid().as_raw();
    if about.uid() != own || about.permissions().mode() & 0o077 != 0 {
        let what = format!(
            "{} is not a directory for its user alone (mode 0700, owner {own})",
            directory.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    // Anyone who may rename a directory above can put another server there.
    owned::check_directory(&fs::canonicalize(directory).map_err(named)?)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = rustix::fs::open(with_suffix(path, ".lock"), flags, Mode::from_raw_mode(0o600))
        .map_err(|errno| named(errno.into()))?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let what = format!("{}: another `pinfold serve` listens there", path.display());
        io::Error::new(io::ErrorKind::AddrInUse, what)
    })?;
    match fs::symlink_metadata(path) {
        Ok(about) if !about.file_type().is_socket() => {
            let what = format!("{} is there and no socket", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(named(error)),
        _ => {}
    }
    // Nobody sees it before it is its user's alone. The holder of the lock owns this name, too.
    let new = with_suffix(path, ".new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(named(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&new).map_err(named)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).map_err(named)?;
    fs::rename(&new, path).map_err(named)?;
    Ok((lock, listener))
}

fn with_suffix(path: &Path, what: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(what);
    name.into()
}
