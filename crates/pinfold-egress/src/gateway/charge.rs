//! What a request is charged: all that it may use before it leaves, and what it has used once that is
//! known.

use std::sync::Arc;
use std::time::Instant;

use pinfold_policy::prices::Tokens;

use super::budget::{Budget, Over};
use super::config::{GatewayConfig, ProviderId};
use super::journal::{Event, Journal, shortened};

/// Tokens that a model says in a second at most, where nobody knows what it said until a client broke
/// off. The fast ones of 2026 say 100 to 200.
const SAID_A_SECOND: u64 = 200;

/// The charge for one request. Dropped before it is settled, what was reserved stays charged: nobody
/// knows what the request went on to use.
pub(super) struct Charge {
    budget: Arc<dyn Budget>,
    journal: Arc<dyn Journal>,
    provider: ProviderId,
    /// The model, as the request names it.
    model: Option<String>,
    reserved: Tokens,
    /// What is counted already.
    counted: Tokens,
    since: Instant,
    is_settled: bool,
}

impl Charge {
    /// Asks the budgets and reserves what a request may use.
    pub(super) fn admitted(
        config: &GatewayConfig,
        provider: &ProviderId,
        model: Option<String>,
        reserved: Tokens,
    ) -> Result<Self, Over> {
        config.budget.admit(model.as_deref(), &reserved)?;
        let mut charge = Self::none(config, provider);
        (charge.model, charge.reserved) = (model, reserved);
        Ok(charge)
    }

    /// Returns the charge for a request that is not to a model. Its answer may report some usage.
    pub(super) fn none(config: &GatewayConfig, provider: &ProviderId) -> Self {
        Self {
            budget: Arc::clone(&config.budget),
            journal: Arc::clone(&config.journal),
            provider: provider.clone(),
            model: None,
            reserved: Tokens::default(),
            counted: Tokens::default(),
            since: Instant::now(),
            is_settled: false,
        }
    }

    /// Returns the model, as the request names it.
    pub(super) fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns what is known to be used, or what was reserved where that is more.
    pub(super) fn at_least_reserved(&self, known: Tokens) -> Tokens {
        Tokens {
            input: known.input.max(self.reserved.input),
            output: known.output.max(self.reserved.output),
            ..known
        }
    }

    /// Returns what is counted already.
    pub(super) fn counted(&self) -> Tokens {
        self.counted
    }

    /// Returns what a request has used at least whose answer broke off: what was seen of it, and what a
    /// model may have thought in that time without saying so.
    pub(super) fn broken_off(&self, seen: Tokens) -> Tokens {
        let seconds = self.since.elapsed().as_secs() + 1;
        let unseen = self.reserved.output.min(seconds.saturating_mul(SAID_A_SECOND));
        Tokens { output: seen.output.max(unseen), ..seen }
    }

    /// Corrects what the answer has used so far. `model` is the one that the answer names.
    pub(super) fn spend(&mut self, model: Option<&str>, now: Tokens) -> Result<(), Over> {
        let before = std::mem::replace(&mut self.counted, now);
        self.budget.spend(self.model.as_deref().or(model), &before, &now)
    }

    /// Puts what was used in the place of what was reserved, and records it. The answer is there
    /// already: what cannot be recorded now shows as a credential's use without its end.
    pub(super) fn settle(mut self, model: Option<&str>, tokens: Tokens, estimated: bool) {
        self.end(model, tokens, estimated);
    }

    /// Takes everything back: nothing was used.
    pub(super) fn refund(mut self) {
        self.is_settled = true;
        if self.counted != Tokens::default() {
            // What is over is refused with the next request.
            let _ = self.spend(None, Tokens::default());
        }
        self.budget.release(self.model.as_deref(), &self.reserved);
    }

    fn end(&mut self, model: Option<&str>, tokens: Tokens, estimated: bool) {
        self.is_settled = true;
        if tokens == Tokens::default() && estimated {
            return;
        }
        let _ = self.spend(model, tokens);
        self.budget.release(self.model.as_deref(), &self.reserved);
        let model = self.model.as_deref().or(model).unwrap_or_default();
        let (provider, model) = (&self.provider, shortened(model));
        let cost = self.budget.cost(model, &tokens);
        let _ = self.journal.record(&Event::Usage { provider, model, tokens, cost, estimated });
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let tokens = self.at_least_reserved(self.counted);
        if !self.is_settled {
            self.end(None, tokens, true);
        }
    }
}
