//! Signatures of entries of a server: made with its requests, and verified.
//!
//! The server chooses a nonce and nothing else of what is signed. Its answers do not have the nonce of an entry, so a signature of
//! somebody else's can often not be verified here.

use std::sync::OnceLock;

use pinfold_content::{Cid, Uuid, Value};

use super::{ServedDiary, SignWhen, is_of, lie, list};
use crate::entry::Entry;
use crate::error::{MemoryError, ServerError};
use crate::sign::{Signature, Signer};

/// The scope that a client needs to sign.
const SIGN: &str = "crypto:sign";
/// Requests for signatures of a page.
const REQUESTS: u32 = 100;

/// Who signs new entries, and when.
#[derive(Default)]
pub(super) struct Signing {
    signer: Option<(Signer, SignWhen)>,
    /// Whether the server knows the key as its client's.
    is_known: OnceLock<bool>,
}

impl Signing {
    pub(super) fn new(signer: Option<Signer>, when: SignWhen) -> Self {
        Self { signer: signer.map(|signer| (signer, when)), is_known: OnceLock::new() }
    }
}

impl ServedDiary {
    /// Has an entry's address signed, and returns the server's request and the signature; none if entries are not signed.
    pub(super) fn sign(&self, cid: &Cid) -> Result<Option<(Uuid, Signature)>, MemoryError> {
        let Some((signer, when)) = &self.signing.signer else { return Ok(None) };
        match when {
            SignWhen::Never => return Ok(None),
            SignWhen::KeyIsKnown if !self.knows(signer)? => return Ok(None),
            SignWhen::Always if !self.knows(signer)? => {
                return Err(MemoryError::UnknownKey(signer.public_key()));
            }
            SignWhen::KeyIsKnown | SignWhen::Always => {}
        }
        let asked = Value::object([
            ("message", cid.as_str().into()),
            ("verificationMethod", "agent-ed25519".into()),
        ]);
        let request = self.server.post("/crypto/signing-requests", &asked)?;
        let id: Option<Uuid> = request.text_of("id").and_then(|id| id.parse().ok());
        // No text of the server's is signed: its nonce is a UUID.
        let nonce: Option<Uuid> = request.text_of("nonce").and_then(|nonce| nonce.parse().ok());
        let (Some(id), Some(nonce)) = (id, nonce) else {
            return Err(lie("its request for a signature has no id or no nonce"));
        };
        if request.text_of("message").is_none_or(|message| message != cid.as_str()) {
            return Err(lie("it asks for a signature of something else"));
        }
        let signature = signer.sign(cid, nonce);
        let body = Value::object([("signature", signature.signature.as_str().into())]);
        let done = self.server.post(&format!("/crypto/signing-requests/{id}/sign"), &body)?;
        if done.get("valid").and_then(Value::as_bool) != Some(true) || !is_of(&done, "id", id) {
            return Err(lie("it does not take the signature"));
        }
        Ok(Some((id, signature)))
    }

    /// Returns whether the server knows a key as its client's, and lets that sign. It is asked once.
    fn knows(&self, signer: &Signer) -> Result<bool, MemoryError> {
        if let Some(is_known) = self.signing.is_known.get() {
            return Ok(*is_known);
        }
        let who = match self.server.get("/agents/whoami", &[]) {
            Ok(who) => who,
            // The client may not even ask who it is.
            Err(ServerError { status: Some(403 | 404), .. }) => Value::Null,
            Err(error) => return Err(error.into()),
        };
        let scopes = who.get("scopes").and_then(Value::as_array);
        let may_sign = scopes.is_none_or(|scopes| {
            scopes.iter().any(|scope| scope.as_text().is_some_and(|scope| scope == SIGN))
        });
        let key = who.text_of("publicKey");
        let is_known = may_sign && key.is_some_and(|key| key == signer.public_key());
        Ok(*self.signing.is_known.get_or_init(|| is_known))
    }

    /// Returns the signature of an entry that was verified, or else what the server claims.
    ///
    /// # Errors
    /// Returns an error for a signature that does not verify, or of this identity by another key.
    pub(super) fn signature_of(
        &self,
        value: &Value,
        entry: &Entry,
    ) -> Result<(Option<Signature>, Option<Signature>), MemoryError> {
        let Some(signature) = value.text_of("contentSignature") else { return Ok((None, None)) };
        let creator = value.get("creator");
        let of_creator = |name: &str| {
            creator.and_then(|creator| creator.text_of(name)).unwrap_or_default().into_owned()
        };
        let signature = Signature {
            identity: of_creator("identityId"),
            public_key: of_creator("publicKey"),
            signature: signature.into_owned(),
            nonce: value.text_of("signingNonce").map(|nonce| nonce.into_owned()),
        };
        if let Some((signer, _)) = &self.signing.signer {
            let is_own = !signature.identity.is_empty() && signature.identity == signer.identity();
            if is_own && signature.public_key != signer.public_key() {
                return Err(lie("it gave this identity another key"));
            }
        }
        // Signatures of the second format have none either, but no other program makes those.
        if signature.nonce.is_none() {
            return Ok((None, Some(signature)));
        }
        signature.check(&entry.cid).map_err(|_| does_not_verify(entry))?;
        Ok((Some(signature), None))
    }

    /// Verifies an entry's claim as far as that can be done: with the nonce of a request of this client's, or by the server.
    pub(super) fn with_claim_looked_into(&self, entry: Entry) -> Result<Entry, MemoryError> {
        let Some(claim) = &entry.claim else { return Ok(entry) };
        let own = self.signing.signer.as_ref();
        if own.is_some_and(|(signer, _)| signer.public_key() == claim.public_key)
            && let Some(nonce) = self.nonce_of(claim)?
        {
            let signature = Signature { nonce: Some(nonce), ..claim.clone() };
            signature.check(&entry.cid).map_err(|_| does_not_verify(&entry))?;
            return Ok(Entry { signature: Some(signature), claim: None, ..entry });
        }
        let verified = match self.server.get(&format!("/entries/{}/verify", entry.id), &[]) {
            Ok(verified) => verified,
            // An old server has no such request.
            Err(ServerError { status: Some(403 | 404), .. }) => return Ok(entry),
            Err(error) => return Err(error.into()),
        };
        if verified.get("valid").and_then(Value::as_bool) == Some(true) {
            Ok(entry)
        } else {
            Err(does_not_verify(&entry))
        }
    }

    /// Returns the nonce of a signature of this client's, if it is among its last requests.
    fn nonce_of(&self, claim: &Signature) -> Result<Option<String>, MemoryError> {
        let query = [("limit", REQUESTS.to_string()), ("status", "completed".to_owned())];
        let answer = match self.server.get("/crypto/signing-requests", &query) {
            Ok(answer) => answer,
            // The client may not ask for its requests.
            Err(ServerError { status: Some(403 | 404), .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let is_its = |request: &&Value| {
            request.text_of("signature").is_some_and(|its| its == claim.signature)
        };
        let request = list(&answer, "items")?.iter().find(is_its);
        Ok(request.and_then(|its| its.text_of("nonce")).map(|nonce| nonce.into_owned()))
    }
}

fn does_not_verify(entry: &Entry) -> MemoryError {
    lie(format!("the signature of the entry {} does not verify", entry.id))
}
