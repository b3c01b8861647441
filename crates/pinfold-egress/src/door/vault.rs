//! The secrets of one session: placeholders inside, values outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use pinfold_policy::network::{Endpoint, Repository, SecretRule};
use pinfold_secrets::Secret;
use tokio::task::spawn_blocking;

use super::patterns::Patterns;

/// The longest wait for a secret: a keyring or a command may ask a user first.
const RESOLVE_LIMIT: Duration = Duration::from_secs(60);

/// How long a value is used without asking its source again, if that shows no change. What a
/// command gives may be short-lived.
const KEPT: Duration = Duration::from_secs(5 * 60);

/// Values that were replaced and are still looked for in answers.
const FORMER: usize = 8;

/// Where a secret comes from, as long as the session lives. Called on a thread that may block.
pub trait LiveSecret: Send + Sync {
    /// Returns something that changes when the secret is rotated or revoked. Cheap: called for each use.
    fn stamp(&self) -> u64;

    /// Returns the value; an error when it is missing, or not valid any more.
    ///
    /// # Errors
    /// Returns the source's error.
    fn value(&self) -> Result<Secret, pinfold_secrets::Error>;
}

/// A secret with its placeholder.
pub struct PlacedSecret {
    /// Where it may go.
    pub rule: SecretRule,
    /// What the sandbox has instead, or would have.
    pub placeholder: String,
    /// The repositories for which git alone has it, and without asking; `None` for a secret whose
    /// placeholder is inside.
    pub git: Option<Vec<Repository>>,
    /// Its value at the beginning, which must not come back even before it was used here: another
    /// session may have sent it to the same host.
    pub value: Secret,
    /// Where it comes from.
    pub source: Arc<dyn LiveSecret>,
}

/// The secrets of one session.
pub(super) struct Vault(Vec<Arc<Held>>);

/// One secret, with its value once it was needed.
pub(super) struct Held {
    pub(super) rule: SecretRule,
    pub(super) placeholder: String,
    pub(super) git: Option<Vec<Repository>>,
    source: Arc<dyn LiveSecret>,
    values: Mutex<Values>,
    /// Grows with each value that was not in use before.
    generation: AtomicU64,
    /// One resolution at a time; others wait for it.
    resolving: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Values {
    current: Option<(u64, Instant, Arc<Secret>)>,
    /// Every value that is or was in use, the last one first.
    used: Vec<Arc<Secret>>,
}

/// The secret is not there, or not any more.
pub(super) struct Gone;

impl Vault {
    pub(super) fn new(secrets: Vec<PlacedSecret>) -> Self {
        let held = |PlacedSecret { rule, placeholder, git, value, source }| {
            let values = Mutex::new(Values { current: None, used: vec![Arc::new(value)] });
            Arc::new(Held {
                rule,
                placeholder,
                git,
                source,
                values,
                generation: AtomicU64::default(),
                resolving: Default::default(),
            })
        };
        Self(secrets.into_iter().map(held).collect())
    }

    /// Returns the secrets that may go to a host.
    pub(super) fn secrets_for(&self, asked: &Endpoint) -> Vec<Arc<Held>> {
        self.0.iter().filter(|held| held.rule.is_for(asked)).map(Arc::clone).collect()
    }

    pub(super) fn knows(&self, asked: &Endpoint) -> bool {
        self.0.iter().any(|held| held.rule.is_for(asked))
    }
}

/// Secrets that must not come back, watched for new values as long as an answer lasts.
#[derive(Default)]
pub(super) struct Watch {
    held: Vec<Arc<Held>>,
    seen: u64,
}

impl Watch {
    pub(super) fn new(held: Vec<Arc<Held>>) -> Self {
        Self { held, seen: 0 }
    }

    /// Returns what is looked for at the beginning.
    pub(super) fn patterns(&mut self) -> Patterns {
        // First the number: a value that comes in between is found again.
        self.seen = self.generation();
        let mut patterns = Patterns::default();
        self.held.iter().for_each(|held| held.add_patterns(&mut patterns));
        patterns
    }

    /// Returns what is looked for from now on, if that has changed.
    pub(super) fn changed(&mut self) -> Option<Patterns> {
        (self.generation() != self.seen).then(|| self.patterns())
    }

    fn generation(&self) -> u64 {
        self.held.iter().map(|held| held.generation.load(Ordering::SeqCst)).sum()
    }
}

impl Held {
    /// Returns the value as it is now.
    pub(super) async fn value(self: &Arc<Self>) -> Result<Arc<Secret>, Gone> {
        let _one = self.resolving.lock().await;
        let held = Arc::clone(self);
        let resolving = spawn_blocking(move || held.resolve());
        let resolved = tokio::time::timeout(RESOLVE_LIMIT, resolving).await;
        resolved.map_err(|_| Gone)?.map_err(|_| Gone)?
    }

    fn resolve(&self) -> Result<Arc<Secret>, Gone> {
        let source = &self.source;
        let stamp = source.stamp();
        if let Some((at, since, value)) = &self.values().current
            && *at == stamp
            && since.elapsed() < KEPT
        {
            return Ok(Arc::clone(value));
        }
        self.values().current = None;
        let value = Arc::new(source.value().map_err(|_| Gone)?);
        let mut values = self.values();
        if values.used.iter().all(|used| used.expose() != value.expose()) {
            // Before the value goes anywhere, so that no answer can hold it unnoticed.
            self.generation.fetch_add(1, Ordering::SeqCst);
        }
        values.used.retain(|used| used.expose() != value.expose());
        values.used.insert(0, Arc::clone(&value));
        values.used.truncate(FORMER);
        values.current = Some((stamp, Instant::now(), Arc::clone(&value)));
        Ok(value)
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock()
    }

    /// Adds what must not come back: every value that was in use.
    fn add_patterns(&self, patterns: &mut Patterns) {
        for value in &self.values().used {
            patterns.add_secret(value.expose(), &self.placeholder);
        }
    }
}
