//! The server's side of SSH (RFC 4251 to 4254) on two streams: sessions with programs, and nothing else.
//!
//! It stands behind a client's `ProxyCommand`, so both ends are processes of one user, connected by a pipe. The
//! protocol is spoken because clients speak it; nobody logs in, and its encryption keeps nothing from anybody. One
//! set of algorithms is known, which OpenSSH has had since 2014: curve25519-sha256, ssh-ed25519 and
//! chacha20-poly1305@openssh.com. Ports, sockets, agents and displays are not forwarded.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod channel;
mod connection;
mod exchange;
pub mod fields;
mod host_key;
mod message;
mod packet;
mod program;

#[cfg(any(fuzzing, test))]
pub use connection::fuzzing;
pub use connection::serve;
pub use host_key::HostKey;
pub use program::{Command, Program, Size, StartProgram, Started, What};

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub enum SshError {
    /// The stream broke, or ended within a message.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The client says what has no meaning here.
    #[error("the client sent {0}")]
    Malformed(&'static str),
    /// The client and this server have no algorithm in common.
    #[error("the client knows none of the algorithms for {0}; OpenSSH 6.5 and newer know them")]
    NoAlgorithm(&'static str),
    /// The system has no random bytes, or a key cannot be used.
    #[error("cryptography failed: {0}")]
    Crypto(&'static str),
}

impl From<fields::Malformed> for SshError {
    fn from(_: fields::Malformed) -> Self {
        Self::Malformed("a message that is cut short")
    }
}
