//! What MoltNet's own daemon needs in addition: who it is, profiles of runtimes and manifests of executors.

use data_encoding::HEXUPPER;
use pinfold_tasks::{Note, Store, Transaction};
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, UnparsedPublicKey};

use super::caller::Caller;
use super::document::notes;
use super::service::{Service, check};
use crate::problem::Problem;
use pinfold_content::{Cid, Uuid, Value, canonical, read, times};

/// The revision of the profile. It changes only with the options of the server.
pub(crate) const REVISION: u32 = 1;
/// The most manifests of one agent.
const MOST_MANIFESTS: u32 = 100;
/// How long a daemon may continue what it worked on, in seconds.
pub(super) const SESSION_TTL: u32 = 1_800;
/// What an executor signs begins with this.
const ATTESTATION: &[u8] = b"moltnet-task-executor-attestation-v1";

/// Which model a daemon is to use.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The model's provider.
    pub provider: String,
    pub model: String,
}

/// Returns who the caller is.
pub(crate) fn whoami(caller: &Caller) -> Value {
    let agent = &caller.agent;
    let words: Value = caller.scopes.iter().map(|scope| scope.word()).collect();
    let binding = Value::object([
        ("bindingScope", "team".into()),
        ("boundTeamId", agent.team.as_str().into()),
        ("keyId", agent.key_id.as_str().into()),
    ]);
    let Value::Object(mut who) = Value::object([
        ("identityId", agent.id.as_str().into()),
        ("subjectType", "agent".into()),
        ("clientId", agent.id.as_str().into()),
    ]) else {
        return Value::Null;
    };
    if let (Some(bytes), Some(key)) = (agent.public_bytes(), &agent.public_key) {
        who = who.with("fingerprint", fingerprint(&bytes)).with("publicKey", key.as_str());
    }
    who.with("scopes", words)
        .with("currentTeamId", agent.team.as_str())
        .with("credentialBinding", binding)
        .into()
}

/// Returns the fingerprint of a public key: four groups of four digits.
pub(crate) fn fingerprint(key: &[u8]) -> String {
    let digits = HEXUPPER.encode(digest(&SHA256, key).as_ref());
    [&digits[..4], &digits[4..8], &digits[8..12], &digits[12..16]].join("-")
}

/// Returns the manifest of the executor that a body names, which has to be registered; `null` if it names none.
pub(crate) fn registered(
    transaction: &mut impl Transaction,
    caller: &Caller,
    body: &Value,
) -> Result<Value, Problem> {
    let Some(fingerprint) = body.text_of("executorFingerprint") else { return Ok(Value::Null) };
    let key = format!("{}/{fingerprint}", caller.agent.id);
    match transaction.note(notes::MANIFEST, &key)? {
        Some(text) => read(&text).map_err(|_| Problem::internal()),
        None => Err(Problem::field("/executorFingerprint", "is not registered")),
    }
}

impl<S: Store> Service<S> {
    /// Keeps the manifest of an executor.
    pub(crate) fn register(&self, caller: &Caller, body: &Value) -> Result<Value, Problem> {
        check("register", body)?;
        let manifest = body.get("executorManifest").cloned().unwrap_or(Value::Null);
        let given = body.text_of("executorFingerprint").unwrap_or_default();
        let fingerprint = Cid::of_bytes(canonical(&manifest).as_bytes());
        if given != fingerprint.as_str() {
            let message = format!("Expected {fingerprint} for the supplied manifest");
            return Err(Problem::field("/executorFingerprint", message));
        }
        // An agent without a key declares itself.
        if let Some(key) = caller.agent.public_bytes() {
            let signature = body.text_of("executorSignature").unwrap_or_default();
            check_signature(&key, &signature, &fingerprint)?;
        }
        let beginning = format!("{}/", caller.agent.id);
        let note = Note { key: format!("{beginning}{fingerprint}"), content: manifest.to_string() };
        self.keep_bounded(notes::MANIFEST, &beginning, &note, MOST_MANIFESTS)?;
        Ok(Value::object([("executorFingerprint", fingerprint.as_str().into())]))
    }

    /// Keeps a note of an agent, which may have so many.
    fn keep_bounded(
        &self,
        kind: &str,
        beginning: &str,
        note: &Note,
        most: u32,
    ) -> Result<(), Problem> {
        self.store.write(|transaction| {
            let is_new = transaction.note(kind, &note.key)?.is_none();
            let count = transaction.notes(kind, beginning, "", most)?.len();
            if is_new && count >= most as usize {
                return Err(Problem::conflict(format!("The agent has {most} of these already")));
            }
            Ok(transaction.set_note(kind, note, None)?)
        })
    }
}

/// Checks that an agent signed the manifest of an executor.
fn check_signature(key: &[u8], signature: &str, fingerprint: &Cid) -> Result<(), Problem> {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let claim = Value::object([
        ("executorFingerprint", fingerprint.as_str().into()),
        ("phase", "register".into()),
        ("v", "moltnet:task-executor-attestation:v1".into()),
    ]);
    let hash = digest(&SHA256, canonical(&claim).as_bytes());
    let length = 32_u32.to_be_bytes();
    let message = [ATTESTATION, &length, hash.as_ref()].concat();
    let signature = STANDARD.decode(signature).unwrap_or_default();
    let verified = UnparsedPublicKey::new(&ED25519, key).verify(&message, &signature);
    verified.map_err(|_| Problem::field("/executorSignature", "is not a signature of the agent"))
}

impl Profile {
    /// Returns the profile as the API shows it to a team.
    pub(crate) fn render(&self, team: &str) -> Value {
        let empty = || Value::object([]);
        let none = || Value::Array(Vec::new());
        let sandbox = Value::object([
            ("env", empty()),
            ("network", empty()),
            ("vfs", empty()),
            ("resources", empty()),
            ("hostExec", Value::object([("autoApprove", false.into())])),
        ]);
        let modes = ["shared_mount", "dedicated_worktree", "none"];
        let created = times::write(pinfold_tasks::Timestamp::from_millis(0));
        let definition = Value::object([
            ("provider", self.provider.as_str().into()),
            ("model", self.model.as_str().into()),
            ("sandbox", sandbox.clone()),
        ]);
        Value::object([
            ("id", profile_id(team).into()),
            ("teamId", team.into()),
            ("name", "default".into()),
            ("description", Value::Null),
            ("provider", self.provider.as_str().into()),
            ("model", self.model.as_str().into()),
            ("runtimeKind", "gondolin_pi".into()),
            ("revision", REVISION.into()),
            ("definitionCid", Cid::of_json(&definition).to_string().into()),
            ("thinkingLevel", Value::Null),
            ("temperature", Value::Null),
            ("topP", Value::Null),
            ("topK", Value::Null),
            ("maxOutputTokens", Value::Null),
            ("leaseTtlSec", 300_u32.into()),
            ("heartbeatIntervalMs", 60_000_u32.into()),
            ("maxBatchSize", 50_u32.into()),
            ("maxTurns", 0_u32.into()),
            ("maxBashTimeouts", 3_u32.into()),
            ("sessionTtlSec", SESSION_TTL.into()),
            ("workspaceTtlSec", SESSION_TTL.into()),
            ("sessionStorageMode", "local".into()),
            ("workspaceStorageMode", "local".into()),
            ("defaultWorkspaceMode", Value::Null),
            ("allowedWorkspaceModes", modes.into_iter().collect()),
            ("requiredEnv", none()),
            ("requiredTools", none()),
            ("requiredExecutables", none()),
            ("toolEnforcement", "off".into()),
            ("context", none()),
            ("sandbox", sandbox),
            ("createdAt", created.as_str().into()),
            ("updatedAt", created.as_str().into()),
        ])
    }
}

/// Returns the id of the profile of a team, which is always the same.
pub(crate) fn profile_id(team: &str) -> String {
    id_of(&format!("runtime profile of {team}"))
}

/// Returns the id of something that always has the same one.
pub(super) fn id_of(what: &str) -> String {
    let digest = digest(&SHA256, what.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_ref()[..16]);
    Uuid::from_random(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::{check_signature, fingerprint};
    use pinfold_content::Cid;

    /// The seed of the original's example is 32 times 0x07.
    #[test]
    fn fingerprint_and_signature_are_those_of_the_original() {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        use ring::signature::{Ed25519KeyPair, KeyPair as _};
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let key = pair.public_key().as_ref();
        assert_eq!(STANDARD.encode(key), "6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=");
        assert_eq!(fingerprint(key), "FE81-2C12-F3AB-4CE6");
        let cid = Cid::of_bytes(b"{}");
        assert!(check_signature(key, "", &cid).is_err());
        assert!(check_signature(key, &STANDARD.encode([0; 64]), &cid).is_err());
    }
}
