//! What a session, a group or everybody may use of models.

use std::fmt;

use super::keys::{BUDGET, GROUPED};
use super::words::Window;
use crate::document::{FileError, Item, Section};
use crate::origin::{Origin, Place, Valued};
use crate::prices::amount;

/// An amount of money, in billionths of a USD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(pub u64);

impl Usd {
    /// A cent, in billionths of a USD.
    const CENT: u64 = 10_000_000;

    /// Rounds to cents, and what is less than a cent to two significant digits.
    #[must_use]
    pub fn rounded(self) -> Self {
        let unit = match self.0.checked_ilog10() {
            Some(digits) if self.0 < Self::CENT => 10_u64.pow(digits.saturating_sub(1)),
            Some(_) | None => Self::CENT,
        };
        Self(self.0.saturating_add(unit / 2) / unit * unit)
    }
}

/// Writes all digits of an amount, and at least two behind the point.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, cents) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000 / Self::CENT);
        let rest = format!("{:07}", self.0 % Self::CENT);
        write!(f, "${whole}.{cents:02}{}", rest.trim_end_matches('0'))
    }
}

/// Why a text is no amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an amount in USD, such as 2.50")]
pub struct UsdError;

impl std::str::FromStr for Usd {
    type Err = UsdError;

    fn from_str(text: &str) -> Result<Self, UsdError> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        if part.len() > 9 || !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(UsdError);
        }
        let digits = format!("{whole}{part:0<9}");
        digits.parse().map(Self).map_err(|_| UsdError)
    }
}

/// What this session may use of models, on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlagBudget {
    /// `--budget-requests`.
    pub requests: Option<u64>,
    /// `--budget-tokens`.
    pub tokens: Option<u64>,
    /// `--budget-usd`.
    pub usd: Option<Usd>,
    /// `--task-budget`: whether the budget of tasks counts, too.
    pub of_tasks: bool,
}

/// Whose budget it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetOf {
    /// All sessions of the user, or each one.
    User,
    /// The sessions of a group.
    Group(String),
    /// All tasks and loops of the user.
    Tasks,
    /// The administrator's, for all sessions of the user.
    Administrator,
}

/// What may be used within a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Whose it is.
    pub of: BudgetOf,
    /// Requests to models.
    pub requests: Option<Valued<u64>>,
    /// Tokens, sent and received.
    pub tokens: Option<Valued<u64>>,
    /// Money.
    pub usd: Option<Valued<Usd>>,
    /// How long it lasts.
    pub per: Window,
}

impl Budget {
    fn limits(&self) -> bool {
        self.requests.is_some() || self.tokens.is_some() || self.usd.is_some()
    }
}

impl fmt::Display for BudgetOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.write_str("the budget"),
            Self::Group(name) => write!(f, "the budget of group {name}"),
            Self::Tasks => f.write_str("the budget of tasks"),
            Self::Administrator => f.write_str("the administrator's budget"),
        }
    }
}

/// Returns the user's `[budget]`, and those of groups in it.
pub(super) fn of_user(section: &Section<'_>) -> Result<Vec<Budget>, FileError> {
    let Some(item) = section.get("budget") else { return Ok(Vec::new()) };
    let table = item.table(GROUPED)?;
    let mut budgets = vec![budget(&table, BudgetOf::User, Origin::User)?];
    if let Some(groups) = table.get("group") {
        for item in groups.map()?.items() {
            let of = BudgetOf::Group(item.name().to_owned());
            budgets.push(budget(&item.table(BUDGET)?, of, Origin::User)?);
        }
    }
    if let Some(item) = table.get("tasks") {
        budgets.push(budget(&item.table(BUDGET)?, BudgetOf::Tasks, Origin::User)?);
    }
    Ok(budgets)
}

/// Returns the administrator's `[budget]`.
pub(super) fn of_ceiling(section: &Section<'_>) -> Result<Option<Budget>, FileError> {
    section.read("budget", |item| {
        budget(&item.table(BUDGET)?, BudgetOf::Administrator, Origin::Ceiling)
    })
}

fn budget(
    table: &Section<'_>,
    of: BudgetOf,
    layer: fn(Place) -> Origin,
) -> Result<Budget, FileError> {
    let count =
        |key: &str| table.read(key, |item| Ok(Valued::new(item.count()?, layer(item.place()))));
    let usd = |item: &Item<'_>| Ok(Valued::new(Usd(amount(item, 1e9)?), layer(item.place())));
    Ok(Budget {
        of,
        requests: count("requests")?,
        tokens: count("tokens")?,
        usd: table.read("usd", usd)?,
        per: table.read("per", Item::parsed)?.unwrap_or(Window::Session),
    })
}

/// Returns the budgets that a session is under: the user's with what flags say, its group's and the
/// administrator's. A flag is about this session alone.
pub(super) fn merged(
    user: Vec<Budget>,
    group: Option<&str>,
    flags: FlagBudget,
    ceiling: Option<Budget>,
) -> Vec<Budget> {
    fn flag<T>(name: &'static str, value: Option<T>) -> Option<Valued<T>> {
        value.map(|value| Valued::new(value, Origin::Flag { name }))
    }
    let counts = |budget: &Budget| match &budget.of {
        BudgetOf::Group(name) => group == Some(name),
        BudgetOf::Tasks => flags.of_tasks,
        BudgetOf::User | BudgetOf::Administrator => true,
    };
    let flags = Budget {
        of: BudgetOf::User,
        requests: flag("--budget-requests", flags.requests),
        tokens: flag("--budget-tokens", flags.tokens),
        usd: flag("--budget-usd", flags.usd),
        per: Window::Session,
    };
    let all = user.into_iter().filter(counts).chain([flags]).chain(ceiling);
    all.filter(Budget::limits).collect()
}

/// Returns each number with its key, for `pinfold config`.
pub(super) fn rows(budget: &Budget) -> Vec<(String, String, Origin)> {
    let name = match &budget.of {
        BudgetOf::User => "budget".to_owned(),
        BudgetOf::Group(name) => format!("budget.group.{name}"),
        BudgetOf::Tasks => "budget.tasks".to_owned(),
        BudgetOf::Administrator => "budget (ceiling)".to_owned(),
    };
    let row = |key: &str, value: String, origin: &Origin| {
        (format!("{name}.{key}"), format!("{value} per {}", budget.per), origin.clone())
    };
    let requests = budget.requests.iter().map(|v| row("requests", v.value.to_string(), &v.origin));
    let tokens = budget.tokens.iter().map(|v| row("tokens", v.value.to_string(), &v.origin));
    let usd = budget.usd.iter().map(|v| row("usd", v.value.to_string(), &v.origin));
    requests.chain(tokens).chain(usd).collect()
}

#[cfg(test)]
mod tests {
    use super::Usd;

    #[test]
    fn costs_below_a_cent_have_two_significant_digits() {
        let shown = |nano: u64| Usd(nano).rounded().to_string();
        let costs = [0, 7, 1_234, 4_249_000, 9_996_000, 12_600_000, 2_505_000_000];
        let expected =
            ["$0.00", "$0.000000007", "$0.0000012", "$0.0042", "$0.01", "$0.01", "$2.51"];
        assert_eq!(costs.map(shown), expected);
    }

    #[test]
    fn budgets_are_shown_with_all_their_digits() {
        let shown = |text: &str| text.parse::<Usd>().unwrap().to_string();
        assert_eq!(
            ["2.5", "0.0001", "3", "0.125"].map(shown),
            ["$2.50", "$0.0001", "$3.00", "$0.125"]
        );
    }
}
