//! Who makes the signatures.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::LONGEST;
use super::conversation::{Permit, Purpose};
use super::private::SshPrivateKey;
use super::public::SshPublicKey;
use super::request::{SIGN_REQUEST, SIGN_RESPONSE};
use pinfold_ssh::fields::{Fields, put_string};

/// How long the user's own agent may take: it may ask for a touch or a confirmation.
const PATIENCE: Duration = Duration::from_secs(120);

/// Who signs with a key.
pub enum SshSigner {
    /// This process, which holds the key.
    Held(Box<SshPrivateKey>),
    /// The user's own ssh-agent, at this socket.
    Agent(PathBuf),
}

impl SshSigner {
    /// Makes a signature, as SSH sends it.
    pub(super) async fn sign(&self, key: &SshPublicKey, permit: &Permit) -> io::Result<Vec<u8>> {
        match self {
            Self::Held(private) => private.sign(&permit.algorithm, &permit.data),
            Self::Agent(socket) => {
                let asked = tokio::time::timeout(PATIENCE, ask(socket, key, permit)).await;
                asked.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
            }
        }
    }
}

/// Asks the user's agent. A login is bound there as it was here, so that a key with destinations
/// (ssh-add(1), `-h`) works; an agent that does not know the extension says so and goes on.
async fn ask(socket: &Path, key: &SshPublicKey, permit: &Permit) -> io::Result<Vec<u8>> {
    let mut agent = UnixStream::connect(socket).await?;
    if let Purpose::Login { bind, .. } = &permit.purpose {
        write_message(&mut agent, bind).await?;
        read_message(&mut agent).await?;
    }
    let mut request = vec![SIGN_REQUEST];
    put_string(&mut request, key.blob());
    put_string(&mut request, &permit.data);
    request.extend_from_slice(&permit.flags.to_be_bytes());
    write_message(&mut agent, &request).await?;
    let answer = read_message(&mut agent).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let signature = |answer: &[u8]| {
        let mut fields = Fields::new(answer);
        (fields.byte().ok()? == SIGN_RESPONSE).then_some(())?;
        fields.string().ok().map(<[u8]>::to_vec)
    };
    signature(&answer).ok_or_else(|| io::Error::other("your ssh-agent refused to sign"))
}

/// Reads one message; none at the end of the stream.
///
/// # Errors
/// Returns `InvalidData` for one that is empty or longer than 256 KiB.
pub(super) async fn read_message(stream: &mut UnixStream) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    };
    let length = u32::from_be_bytes(length);
    if length == 0 || length as usize > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // Grows as the bytes come, so that a length alone costs nothing.
    let mut message = Vec::new();
    stream.take(u64::from(length)).read_to_end(&mut message).await?;
    if message.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(message))
}

/// Writes one message.
///
/// # Errors
/// Returns the error of `write(2)`.
pub(super) async fn write_message(stream: &mut UnixStream, message: &[u8]) -> io::Result<()> {
    let mut whole = Vec::with_capacity(message.len() + 4);
    put_string(&mut whole, message);
    stream.write_all(&whole).await
}
