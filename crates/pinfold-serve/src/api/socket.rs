//! The socket at which clients come in.

use std::fs;
use std::io::{self, BufReader};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::net::sockopt::socket_peercred;

use super::Api;

/// Clients at once.
const CLIENTS: usize = 256;

/// Listens at this path and serves every client of the same user, each in a thread of its own, until
/// the process ends. The directory is made, for its user alone, if it is not there.
///
/// # Errors
/// A directory that others can use, another server at the same path, or what bind(2) says.
pub fn listen(api: &Api, path: &Path) -> io::Result<()> {
    let listener = bind(path)?;
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
            // What is closed says it all; others are not told even that.
            continue;
        }
        let (api, counted) = (api.clone(), Arc::clone(&clients));
        clients.fetch_add(1, Ordering::Relaxed);
        let started = thread::Builder::new().name("client".to_owned()).spawn(move || {
            // A client that breaks off has ended, as one that says goodbye has.
            let _ = serve(&api, socket);
            counted.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn serve(api: &Api, socket: UnixStream) -> io::Result<()> {
    let reader = BufReader::new(socket.try_clone()?);
    api.serve(reader, socket)
}

/// The directory keeps others away; a descriptor may still have been passed on (unix(7)).
fn is_own(socket: &UnixStream) -> bool {
    socket_peercred(socket).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

/// The lock that tells a live server from what one has left behind, and the socket.
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
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = rustix::fs::open(lock, flags, Mode::from_raw_mode(0o600))
        .map_err(|errno| named(errno.into()))?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let what = format!("{}: another `pinfold serve` listens there", path.display());
        io::Error::new(io::ErrorKind::AddrInUse, what)
    })?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(named(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(named)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(named)?;
    Ok((lock, listener))
}
