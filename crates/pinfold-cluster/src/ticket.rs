//! Tickets: secrets for one attempt, sealed for the process that has claimed it.
//!
//! The process makes a key pair when it claims the attempt, and puts the public key in the placement. The dispatcher seals the
//! secrets for that key and puts the ticket in the store. The process removes the ticket when it takes it. The private key is
//! in no file, so a copy of the store, a job's script or a log opens no ticket.

use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use pinfold_tasks::{Note, Queue, QueueError, Stop, Store, StoreError, Transaction};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, PublicKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::error::Unspecified;
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::SystemRandom;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::placement::Placement;
use crate::scheduler::JobName;

const KIND: &str = "ticket";
const SALT: &[u8] = b"pinfold ticket 1";
/// How soon the store is asked for a ticket again. Each pause is half as long again as the one before it.
const LOOK: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(1);

/// A variable with a secret, for the process of an attempt.
#[derive(Clone)]
pub struct SecretVariable {
    /// The name of the variable.
    pub name: String,
    pub value: Zeroizing<String>,
}

/// Why there is no ticket.
#[derive(Debug, thiserror::Error)]
pub enum TicketError {
    /// The store fails.
    #[error(transparent)]
    Store(#[from] QueueError),
    /// The ticket was not made for this key, or somebody changed it.
    #[error("the secrets of the attempt cannot be opened")]
    Invalid,
    /// None came in time.
    #[error("no secrets came within {0} s; is `pinfold cluster run` running?")]
    Late(u64),
    /// The attempt is to end.
    #[error("the attempt was ended")]
    Stopped,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    key: String,
    sealed: String,
}

/// A name and a value, as they are sealed.
type Plain = (String, String);

/// The key pair of a process that waits for its ticket.
pub struct TicketKey {
    private: EphemeralPrivateKey,
    public: PublicKey,
}

impl TicketKey {
    /// Returns a new key pair.
    ///
    /// # Errors
    /// Returns an error if the system has no random numbers.
    pub fn generate() -> Result<Self, TicketError> {
        let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new())?;
        let public = private.compute_public_key()?;
        Ok(Self { private, public })
    }

    /// Returns the public key, for the placement.
    #[must_use]
    pub fn public(&self) -> String {
        HEXLOWER.encode(self.public.as_ref())
    }

    /// Waits for the ticket of a job, takes it from the store and opens it.
    ///
    /// # Errors
    /// Returns an error if none comes in time, or if it cannot be opened.
    pub fn wait<S: Store>(
        self,
        name: &JobName,
        queue: &Queue<S>,
        stop: &Stop,
        patience: Duration,
    ) -> Result<Vec<SecretVariable>, TicketError> {
        let begun = Instant::now();
        let mut pause = LOOK;
        loop {
            // The dispatcher has to see the claim first.
            if stop.wait(pause) {
                return Err(TicketError::Stopped);
            }
            pause = (pause + pause / 2).min(LONGEST);
            match take(name, queue) {
                Ok(Some(content)) => return self.open(name, &content),
                Ok(None) => {}
                // The lease decides how long the store may be away.
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error.into()),
            }
            if begun.elapsed() >= patience {
                return Err(TicketError::Late(patience.as_secs()));
            }
        }
    }

    fn open(self, name: &JobName, content: &str) -> Result<Vec<SecretVariable>, TicketError> {
        let stored: Stored = serde_json::from_str(content).map_err(|_| TicketError::Invalid)?;
        let bytes = |text: &str| HEXLOWER.decode(text.as_bytes()).map_err(|_| TicketError::Invalid);
        let (theirs, sealed) = (bytes(&stored.key)?, bytes(&stored.sealed)?);
        let mut sealed = Zeroizing::new(sealed);
        let ours = self.public.as_ref().to_vec();
        let key = shared_key(self.private, &theirs, &Context { name, node: &ours, from: &theirs })?;
        let opened = key.open_in_place(nonce(), Aad::empty(), &mut sealed)?;
        let opened: Vec<Plain> =
            serde_json::from_slice(opened).map_err(|_| TicketError::Invalid)?;
        let variable = |(name, value)| SecretVariable { name, value: Zeroizing::new(value) };
        Ok(opened.into_iter().map(variable).collect())
    }
}

impl std::fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketKey(…)")
    }
}

impl std::fmt::Debug for SecretVariable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretVariable({}=…)", self.name)
    }
}

impl From<Unspecified> for TicketError {
    fn from(_: Unspecified) -> Self {
        Self::Invalid
    }
}

/// What a key is derived for: it opens the ticket of this job and of these two keys alone.
struct Context<'a> {
    name: &'a JobName,
    node: &'a [u8],
    from: &'a [u8],
}

/// Seals secrets for the process that has claimed a placed attempt, and puts them in the store.
pub(crate) fn issue<S: Store>(
    placement: &Placement,
    secrets: &[SecretVariable],
    queue: &Queue<S>,
) -> Result<(), TicketError> {
    let Some(key) = &placement.key else { return Ok(()) };
    let content = seal(&placement.name, key, secrets)?;
    let name = placement.name;
    queue.store().write_task(name.task, |transaction| {
        let Some(mut placement) = Placement::load(transaction, &name)? else { return Ok(()) };
        // The key opens one ticket.
        placement.key = None;
        placement.write(transaction)?;
        let note = Note { key: name.key(), content };
        transaction.set_note(KIND, &note, Some(name.task)).map_err(QueueError::from)
    })?;
    Ok(())
}

fn seal(name: &JobName, node: &str, secrets: &[SecretVariable]) -> Result<String, TicketError> {
    let node = HEXLOWER.decode(node.as_bytes()).map_err(|_| TicketError::Invalid)?;
    let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new())?;
    let public = private.compute_public_key()?;
    let context = Context { name, node: &node, from: public.as_ref() };
    let key = shared_key(private, &node, &context)?;
    let plain: Vec<(&str, &str)> =
        secrets.iter().map(|secret| (secret.name.as_str(), secret.value.as_str())).collect();
    let mut sealed = serde_json::to_vec(&plain).map_err(|_| TicketError::Invalid)?;
    key.seal_in_place_append_tag(nonce(), Aad::empty(), &mut sealed)?;
    let stored = Stored { key: HEXLOWER.encode(public.as_ref()), sealed: HEXLOWER.encode(&sealed) };
    serde_json::to_string(&stored).map_err(|_| TicketError::Invalid)
}

/// Returns the key that both sides derive (RFC 7748, RFC 5869).
fn shared_key(
    private: EphemeralPrivateKey,
    theirs: &[u8],
    context: &Context<'_>,
) -> Result<LessSafeKey, TicketError> {
    let job = format!("{} {}", context.name, context.name.run);
    let info = [job.as_bytes(), context.node, context.from];
    let peer = UnparsedPublicKey::new(&X25519, theirs);
    let key = agree_ephemeral(private, &peer, |secret| {
        let derived = Salt::new(HKDF_SHA256, SALT).extract(secret);
        derived.expand(&info, &CHACHA20_POLY1305).map(UnboundKey::from)
    })??;
    Ok(LessSafeKey::new(key))
}

/// Returns the nonce of a ticket. Each key seals one message, so it may always be the same.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// Takes the ticket of a job from the store.
fn take<S: Store>(name: &JobName, queue: &Queue<S>) -> Result<Option<String>, QueueError> {
    let key = name.key();
    let waits = queue.store().read(|transaction| {
        transaction.note(KIND, &key).map(|note| note.is_some()).map_err(QueueError::from)
    })?;
    // Only what is there is worth a transaction that excludes others.
    if !waits {
        return Ok(None);
    }
    queue.store().write_task(name.task, |transaction| {
        let content = transaction.note(KIND, &key)?;
        transaction.remove_note(KIND, &key)?;
        Ok(content)
    })
}

/// Removes the ticket of a job that is over.
pub(crate) fn withdraw(
    transaction: &mut impl Transaction,
    name: &JobName,
) -> Result<(), StoreError> {
    transaction.remove_note(KIND, &name.key())
}

#[cfg(test)]
mod tests {
    use pinfold_tasks::TaskId;
    use zeroize::Zeroizing;

    use super::{SecretVariable, TicketError, TicketKey, seal};
    use crate::scheduler::{JobName, RunId};

    fn name(attempt: u32) -> JobName {
        let task = TaskId::from_random([7; 16]);
        JobName { task, attempt, run: "0011223344556677".parse::<RunId>().unwrap() }
    }

    fn secrets() -> Vec<SecretVariable> {
        let value = Zeroizing::new("c4n4ry".to_owned());
        vec![SecretVariable { name: "API_KEY".to_owned(), value }]
    }

    #[test]
    fn ticket_is_opened_by_its_key_and_shows_nothing() {
        let key = TicketKey::generate().unwrap();
        let ticket = seal(&name(1), &key.public(), &secrets()).unwrap();
        assert!(!ticket.contains("c4n4ry") && !ticket.contains("API_KEY"), "{ticket}");
        let opened = key.open(&name(1), &ticket).unwrap();
        assert_eq!(opened[0].value.as_str(), "c4n4ry");
        assert_eq!(format!("{opened:?}"), "[SecretVariable(API_KEY=…)]");
    }

    #[test]
    fn ticket_is_opened_by_no_other_key_job_or_content() {
        let (key, other) = (TicketKey::generate().unwrap(), TicketKey::generate().unwrap());
        let ticket = seal(&name(1), &key.public(), &secrets()).unwrap();
        assert!(matches!(other.open(&name(1), &ticket), Err(TicketError::Invalid)));
        assert!(matches!(key.open(&name(2), &ticket), Err(TicketError::Invalid)));
        let key = TicketKey::generate().unwrap();
        let ticket = seal(&name(1), &key.public(), &secrets()).unwrap();
        let changed = ticket.replace("\"}", "00\"}");
        assert!(matches!(key.open(&name(1), &changed), Err(TicketError::Invalid)));
    }

    #[test]
    fn invalid_key_is_refused() {
        for wrong in ["", "00", "zz", &"0".repeat(64)] {
            assert!(seal(&name(1), wrong, &secrets()).is_err(), "{wrong:?}");
        }
    }
}
