//! What models cost: data, which a user's own prices win over.

use std::collections::BTreeMap;
use std::path::Path;

use crate::document::{Document, FileError, Item, Key, Section, SettingsFile, Shape};

/// The reviewed list, by its path in the repository.
const BUILT_IN: (&str, &[u8]) =
    ("agents/prices.toml", include_bytes!("../../../agents/prices.toml"));

/// The keys of a price, in USD for a million tokens.
pub(crate) const PRICE: &[Key] = &[
    Key::new("input", Shape::Amount, "What is sent, except what a cache held."),
    Key::new("output", Shape::Amount, "What the model says and thinks."),
    Key::new("cache_read", Shape::Amount, "What a cache held; as input if absent."),
    Key::new("cache_write", Shape::Amount, "What a cache takes up; as input if absent."),
    Key::new("above", Shape::Count, "Above so many input tokens, what follows holds."),
    Key::new("above_input", Shape::Amount, "As input, above."),
    Key::new("above_output", Shape::Amount, "As output, above."),
    Key::new("above_cache_read", Shape::Amount, "As cache_read, above."),
    Key::new("above_cache_write", Shape::Amount, "As cache_write, above."),
];

/// Tokens of an answer. No token is in two of the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Sent, and not held by a cache.
    pub input: u64,
    /// Said and thought.
    pub output: u64,
    /// Sent, and held by a cache.
    pub cache_read: u64,
    /// Sent, and taken up by a cache.
    pub cache_write: u64,
}

impl Tokens {
    /// Returns all of them.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sent().saturating_add(self.output)
    }

    fn sent(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

/// What a model costs, in billionths of a USD for a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    usual: Rates,
    above: Option<(u64, Rates)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rates {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

/// What all models cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    own: BTreeMap<String, Price>,
    built_in: BTreeMap<String, Price>,
}

impl Prices {
    /// Returns the reviewed list, and a user's own before it.
    ///
    /// # Errors
    /// Returns no error for the list that this program was built with.
    pub fn new(own: BTreeMap<String, Price>) -> Result<Self, FileError> {
        let (path, bytes) = BUILT_IN;
        let document = Document::parse(SettingsFile { path: Path::new(path), bytes })?;
        Ok(Self { own, built_in: read(&Item::of_document(&document))? })
    }

    /// Returns the price of a model. A date or `-latest` behind a name changes nothing.
    #[must_use]
    pub fn of(&self, model: &str) -> Option<&Price> {
        let model = model.strip_prefix("models/").unwrap_or(model);
        let names = || std::iter::once(model).chain(undated(model));
        let own = names().find_map(|name| self.own.get(name));
        own.or_else(|| names().find_map(|name| self.built_in.get(name)))
    }
}

impl Price {
    /// Returns the cost of tokens, in billionths of a USD.
    #[must_use]
    pub fn cost(&self, tokens: &Tokens) -> u64 {
        let rates = match &self.above {
            Some((above, rates)) if tokens.sent() > *above => rates,
            Some(_) | None => &self.usual,
        };
        let parts = [
            (tokens.input, rates.input),
            (tokens.output, rates.output),
            (tokens.cache_read, rates.cache_read),
            (tokens.cache_write, rates.cache_write),
        ];
        parts
            .into_iter()
            .fold(0, |sum, (count, rate)| sum.saturating_add(count.saturating_mul(rate)))
    }
}

/// Returns the name without a date of at least six digits, or `-latest`.
fn undated(model: &str) -> Option<&str> {
    if let Some(name) = model.strip_suffix("-latest") {
        return Some(name);
    }
    let name = model.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    // The digits of a version belong to the name: only a date goes.
    let rest = &model[name.len()..];
    let date = rest.rfind('-').filter(|at| rest.len() - at == 9).map(|at| name.len() + at);
    let dashed = || {
        let at = model.len().checked_sub("-2025-01-31".len())?;
        let tail = model.get(at..)?;
        let is_dash = |(index, c): (usize, char)| (c == '-') == [0, 5, 8].contains(&index);
        tail.chars().enumerate().all(is_dash).then_some(at)
    };
    date.or_else(dashed).map(|at| &model[..at])
}

/// Reads a table of prices.
pub(crate) fn read(item: &Item<'_>) -> Result<BTreeMap<String, Price>, FileError> {
    let price = |item: Item<'_>| Ok((item.name().to_owned(), price(&item.table(PRICE)?)?));
    item.map()?.items().map(price).collect()
}

fn price(table: &Section<'_>) -> Result<Price, FileError> {
    let rate =
        |key: &str, otherwise: u64| table.read(key, nano).map(|rate| rate.unwrap_or(otherwise));
    let (input, output) = (nano(&table.require("input")?)?, nano(&table.require("output")?)?);
    let usual = Rates {
        input,
        output,
        cache_read: rate("cache_read", input)?,
        cache_write: rate("cache_write", input)?,
    };
    let above = table.read("above", Item::count)?;
    let long = Rates { input: rate("above_input", input)?, ..usual.clone() };
    let long = Rates {
        output: rate("above_output", output)?,
        cache_read: rate("above_cache_read", long.input)?,
        cache_write: rate("above_cache_write", long.input)?,
        ..long
    };
    Ok(Price { usual, above: above.map(|above| (above, long)) })
}

/// Converts USD for a million tokens to billionths of a USD for one.
fn nano(item: &Item<'_>) -> Result<u64, FileError> {
    amount(item, 1e3)
}

/// Returns a number that is not negative, times `factor`, as a whole one.
pub(crate) fn amount(item: &Item<'_>, factor: f64) -> Result<u64, FileError> {
    let number = item.number()? * factor;
    if !(0.0..1e18).contains(&number) {
        return Err(item.invalid("expected an amount that is not negative"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok(number.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_costs_what_the_list_says_also_with_a_date() {
        let prices = Prices::new(BTreeMap::new()).unwrap();
        let cost = |model: &str| {
            let million = Tokens { input: 1_000_000, output: 1_000_000, ..Tokens::default() };
            prices.of(model).map(|price| price.cost(&million))
        };
        assert_eq!(cost("claude-sonnet-4-5"), Some(18_000_000_000));
        assert_eq!(cost("claude-sonnet-4-5-20990101"), cost("claude-sonnet-4-5"));
        assert_eq!(cost("gpt-4.1-2025-04-14"), cost("gpt-4.1"));
        assert_eq!(cost("gpt-4.1-latest"), cost("gpt-4.1"));
        assert_eq!(cost("models/gemini-2.5-pro"), Some(11_250_000_000));
        for unknown in
            ["gpt-5-hyper", "claude-sonnet-4-5-1", "claude", "", "-20990101", "é-20990101"]
        {
            assert_eq!(cost(unknown), None, "{unknown}");
        }
        let long = Tokens { input: 300_000, ..Tokens::default() };
        assert_eq!(prices.of("gpt-5.4").unwrap().cost(&long), 300_000 * 5_000);
    }
}
