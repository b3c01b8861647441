//! What a session used of models, for its last line.

use pinfold_policy::count::counted;
use pinfold_policy::prices::Tokens;
use pinfold_policy::settings::Usd;

/// What a session used of models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Answers.
    pub answers: u64,
    pub tokens: Tokens,
    /// What those with a known price cost, in billionths of a USD.
    pub cost: u64,
    /// Answers of models without a known price.
    pub unpriced: u64,
    /// Whether tokens are estimated: an answer did not say how many it has.
    pub is_estimated: bool,
}

impl Used {
    /// Adds one answer. `cost` is in billionths of a USD, if the model's price is known.
    pub(super) fn add(&mut self, tokens: &Tokens, cost: Option<u64>, is_estimated: bool) {
        self.answers += 1;
        let sum = &mut self.tokens;
        sum.input = sum.input.saturating_add(tokens.input);
        sum.output = sum.output.saturating_add(tokens.output);
        sum.cache_read = sum.cache_read.saturating_add(tokens.cache_read);
        sum.cache_write = sum.cache_write.saturating_add(tokens.cache_write);
        self.cost = self.cost.saturating_add(cost.unwrap_or(0));
        self.unpriced += u64::from(cost.is_none());
        self.is_estimated |= is_estimated;
    }

    /// Returns the line, if anything was used.
    pub(crate) fn in_words(&self) -> Option<String> {
        let Self { answers, unpriced, .. } = *self;
        if answers == 0 {
            return None;
        }
        let requests = counted(answers, "model request");
        let about = if self.is_estimated { "about " } else { "" };
        let usd = Usd(self.cost).rounded();
        let cost = match unpriced {
            _ if unpriced == answers => "price unknown".to_owned(),
            0 => format!("{about}{usd}"),
            _ => format!("{about}{usd}, without {unpriced} of unknown price"),
        };
        Some(format!("used {requests}, {about}{} tokens, {cost}", rounded(self.tokens.sum())))
    }
}

/// Writes a number with three digits at most.
fn rounded(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..10_000 => format!("{:.1}k", number as f64 / 1e3),
        10_000..1_000_000 => format!("{}k", number / 1_000),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(output: u64) -> Tokens {
        Tokens { output, ..Tokens::default() }
    }

    #[test]
    fn a_session_without_models_has_no_line() {
        assert_eq!(Used::default().in_words(), None);
    }

    #[test]
    fn requests_tokens_and_cost_are_summed() {
        let mut used = Used::default();
        used.add(&tokens(700), Some(5_000_000), false);
        assert_eq!(used.in_words().unwrap(), "used 1 model request, 700 tokens, $0.005");
        used.add(&tokens(41_300), Some(300_000_000), false);
        assert_eq!(used.in_words().unwrap(), "used 2 model requests, 42k tokens, $0.31");
    }

    #[test]
    fn what_is_estimated_or_has_no_price_is_named() {
        let mut used = Used::default();
        used.add(&tokens(1_250_000), None, true);
        assert_eq!(
            used.in_words().unwrap(),
            "used 1 model request, about 1.2M tokens, price unknown"
        );
        used.add(&tokens(0), Some(2_000_000_000), false);
        assert_eq!(
            used.in_words().unwrap(),
            "used 2 model requests, about 1.2M tokens, about $2.00, without 1 of unknown price"
        );
    }
}
