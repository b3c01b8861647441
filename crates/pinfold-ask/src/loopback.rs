//! Ports of this machine's loopback interface at which sessions answer.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use pinfold_host::directories::Places;
use pinfold_host::sessions::{self, SessionState};
use rustix::io::Errno;

/// The file in a session's private directory that names its port.
const NAME: &str = "answers";

/// Why a session does not listen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoListener {
    /// Another session of this user's has the port, and answers for all of them.
    #[error("another session answers at port {0}")]
    OtherSession(u16),
    /// Somebody else has the port, and would see the links.
    #[error("port {0} of the loopback interface is another program's; no answer links are sent")]
    Foreign(u16),
    /// The system's error.
    #[error("cannot listen for answers: {0}")]
    System(#[from] io::Error),
}

/// Listens at a port, or at any, and notes it in the session's private directory.
///
/// # Errors
/// Returns who has the port, or the error of listening.
pub(crate) fn listen(
    port: Option<u16>,
    places: &Places,
    private: &Path,
) -> Result<TcpListener, NoListener> {
    let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))) {
        Ok(listener) => listener,
        Err(error) if Errno::from_io_error(&error) == Some(Errno::ADDRINUSE) => {
            let port = port.unwrap_or(0);
            let is_ours = is_of_session(places, port) && has_own_listener(port)?;
            return Err(if is_ours {
                NoListener::OtherSession(port)
            } else {
                NoListener::Foreign(port)
            });
        }
        Err(error) => return Err(error.into()),
    };
    let port = listener.local_addr()?.port();
    Places::write_private(&private.join(NAME), port.to_string().as_bytes())?;
    Ok(listener)
}

/// Returns whether a live session of this user's answers at a port. One that was killed leaves its note.
pub(crate) fn is_of_session(places: &Places, port: u16) -> bool {
    let all = fs::read_dir(SessionState::all_private(places)).into_iter().flatten().flatten();
    let of_port = |session: &fs::DirEntry| {
        let text = fs::read_to_string(session.path().join(NAME)).ok();
        text.and_then(|text| text.parse().ok()).is_some_and(|known: u16| known == port)
    };
    let is_live = |session: &fs::DirEntry| {
        session.file_name().to_str().is_some_and(|id| sessions::is_live(places, id))
    };
    all.filter(of_port).any(|session| is_live(&session))
}

/// Returns whether what listens at a port of 127.0.0.1 belongs to this user (proc_pid_net(5), `tcp`).
///
/// # Errors
/// Returns the error of reading the table.
fn has_own_listener(port: u16) -> io::Result<bool> {
    let table = fs::read_to_string("/proc/net/tcp")?;
    Ok(owner(&table, port) == Some(rustix::process::geteuid().as_raw()))
}

/// Returns whose socket listens at a port of 127.0.0.1 in a table of the kernel's.
fn owner(table: &str, port: u16) -> Option<u32> {
    const LISTEN: &str = "0A";
    let local = format!("{:08X}:{port:04X}", u32::from_ne_bytes([127, 0, 0, 1]));
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_it = fields.next()? == local && fields.nth(1)? == LISTEN;
        is_it.then(|| fields.nth(3))??.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_of_a_listener_is_read_from_the_kernels_table() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(has_own_listener(port).unwrap());
        drop(listener);
        assert!(!has_own_listener(port).unwrap());
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 5 1 0 100\n";
        assert_eq!((owner(table, 8080), owner(table, 8081)), (Some(1001), None));
    }
}
