//! Serving the door's socket.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::conversation::{Conversation, Permit, Purpose, Refusal, Verdict};
use super::request::{FAILURE, SIGN_RESPONSE};
use super::signer::{read_message, write_message};
use super::{SshConfig, SshDoor};
use crate::gateway::Event;
use pinfold_ssh::fields::put_string;

/// Connections at once; more wait. Each may hold a message of 256 KiB.
const MOST_CONNECTIONS: usize = 32;
/// How long to wait when the process has no descriptor left.
const BREATH: Duration = Duration::from_millis(50);

impl SshDoor {
    /// Begins to serve, on the current runtime.
    ///
    /// # Errors
    /// Returns the error of registering the socket.
    pub(crate) fn start(&self, acceptors: &mut JoinSet<()>) -> io::Result<()> {
        let listener = self.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        acceptors.spawn(accept(listener, Arc::clone(&self.config)));
        Ok(())
    }
}

async fn accept(listener: UnixListener, config: Arc<SshConfig>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    // The semaphore is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let config = Arc::clone(&config);
                tokio::spawn(async move {
                    // A connection that fails is the sandbox's loss.
                    let _ = converse(stream, &config).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(BREATH).await,
        }
    }
}

async fn converse(mut stream: UnixStream, config: &SshConfig) -> io::Result<()> {
    let mut conversation = Conversation::new(config);
    while let Some(message) = read_message(&mut stream).await? {
        let answer = match conversation.judge(&message) {
            Verdict::Answer(answer) => answer,
            Verdict::Sign(permit) => match sign(config, &permit).await {
                Ok(signature) => signature,
                Err(error) => {
                    let reason = format!("the signature was not made: {error}");
                    refuse(config, &Refusal { what: "signature", reason, hint: None });
                    vec![FAILURE]
                }
            },
            Verdict::Refuse(refusal) => {
                refuse(config, &refusal);
                vec![FAILURE]
            }
        };
        write_message(&mut stream, &answer).await?;
    }
    Ok(())
}

/// Records and makes a signature. One that cannot be recorded is not made.
async fn sign(config: &SshConfig, permit: &Permit) -> io::Result<Vec<u8>> {
    let key = config.key.fingerprint();
    match &permit.purpose {
        Purpose::Git => config.journal.record(&Event::GitSignature { key: &key })?,
        Purpose::Login { label, user, host_key, .. } => {
            let host_key = host_key.fingerprint();
            let event = Event::SshLogin { key: &key, host: label, user, host_key: &host_key };
            config.journal.record(&event)?;
        }
    }
    let signature = config.signer.sign(&config.key, permit).await?;
    let mut answer = vec![SIGN_RESPONSE];
    put_string(&mut answer, &signature);
    Ok(answer)
}

fn refuse(config: &SshConfig, refusal: &Refusal) {
    let Refusal { what, reason, hint } = refusal;
    let event = Event::SignatureRefused { what, reason, hint: hint.as_deref() };
    // Nothing is signed whether or not that can be recorded.
    let _ = config.journal.record(&event);
}
