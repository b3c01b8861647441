use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pinfold_policy::origin::Valued;

use super::*;

fn places(root: &Path) -> Places {
    let at = |name: &str| root.join(name);
    Places { home: at("home"), config: at("config"), state: at("state"), cache: at("cache") }
}

fn budget(per: Window) -> settings::Budget {
    settings::Budget { of: BudgetOf::User, requests: None, tokens: None, usd: None, per }
}

fn budgets(root: &Path, budget: settings::Budget) -> Budgets {
    Budgets::new(vec![budget], Prices::new(BTreeMap::new()).unwrap(), &places(root))
}

fn used(tokens: u64) -> Tokens {
    Tokens { input: tokens, ..Tokens::default() }
}

#[test]
fn sessions_at_once_share_a_count_and_lose_none_of_it() {
    let root = tempfile::tempdir().unwrap();
    let limit =
        || settings::Budget { requests: Some(Valued::default_of(400)), ..budget(Window::Month) };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let budgets = budgets(root.path(), limit());
                for _ in 0..50 {
                    budgets.admit(None, &used(0)).unwrap();
                    budgets.spend(None, &used(0), &used(3)).unwrap();
                }
            });
        }
    });
    let text = fs::read_to_string(root.path().join("state/budget/user.json")).unwrap();
    let count: Count = serde_json::from_str(&text).unwrap();
    assert_eq!((count.requests, count.tokens), (400, 1200));
    let error = budgets(root.path(), limit()).admit(None, &used(0)).unwrap_err();
    let Over::Spent { what, reset, after } = error else { panic!("{error:?}") };
    assert_eq!(what, "the budget of 400 requests for this month (set by the built-in default)");
    assert!(
        reset.starts_with("it starts again at 2") && reset.ends_with("-01T00:00:00Z"),
        "{reset}"
    );
    assert!(after.unwrap() <= Duration::from_secs(31 * DAY));
}

#[test]
fn a_sessions_budget_is_its_own_and_corrections_count() {
    let root = tempfile::tempdir().unwrap();
    let limit =
        settings::Budget { tokens: Some(Valued::default_of(100)), ..budget(Window::Session) };
    let (one, other) = (budgets(root.path(), limit.clone()), budgets(root.path(), limit));
    one.spend(None, &used(0), &used(90)).unwrap();
    one.spend(None, &used(90), &used(40)).unwrap();
    one.admit(None, &used(0)).unwrap();
    one.spend(None, &used(40), &used(100)).unwrap();
    assert!(matches!(one.admit(None, &used(0)), Err(Over::Spent { after: None, .. })));
    assert!(one.spend(None, &used(100), &used(101)).is_err());
    other.admit(None, &used(0)).unwrap();
    assert!(!root.path().join("state").exists());
}

#[test]
fn money_is_counted_by_the_models_price() {
    let root = tempfile::tempdir().unwrap();
    let limit = settings::Budget {
        usd: Some(Valued::default_of("0.01".parse().unwrap())),
        ..budget(Window::Day)
    };
    let budgets = budgets(root.path(), limit);
    assert!(budgets.needs_model());
    let model = Some("claude-sonnet-4-5");
    budgets.admit(model, &used(0)).unwrap();
    let Err(Over::Unpriced { .. }) = budgets.admit(Some("nobody-knows"), &used(0)) else {
        panic!()
    };
    // 3 USD for a million: 3334 tokens are a little more than a cent.
    budgets.spend(model, &used(0), &used(3333)).unwrap();
    budgets.admit(model, &used(0)).unwrap();
    budgets.spend(model, &used(3333), &used(3334)).unwrap_err();
    let Err(Over::Spent { what, .. }) = budgets.admit(model, &used(0)) else { panic!() };
    assert!(what.contains("$0.01 for today"), "{what}");
}

#[test]
fn next_budget_window_starts_at_zero_and_a_broken_count_lets_nothing_pass() {
    let root = tempfile::tempdir().unwrap();
    let limit =
        || settings::Budget { requests: Some(Valued::default_of(1)), ..budget(Window::Day) };
    let file = root.path().join("state/budget/user.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, r#"{"window":"2020-01-01","requests":9,"tokens":9,"nano_usd":9}"#).unwrap();
    let budgets = budgets(root.path(), limit());
    budgets.admit(None, &used(0)).unwrap();
    assert!(matches!(budgets.admit(None, &used(0)), Err(Over::Spent { .. })));
    fs::write(&file, "{").unwrap();
    assert!(matches!(budgets.admit(None, &used(0)), Err(Over::Broken { .. })));
    assert_eq!(window(Window::Month, Duration::from_secs(1_763_800_000)), "2025-11");
}

#[test]
fn a_count_that_was_only_begun_is_none_and_one_that_is_damaged_admits_nothing() {
    let root = tempfile::tempdir().unwrap();
    let limit =
        || settings::Budget { requests: Some(Valued::default_of(9)), ..budget(Window::Month) };
    let file = places(root.path()).state.join("budget/user.json");
    budgets(root.path(), limit()).admit(None, &used(0)).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().len(), SIZE as u64);
    fs::write(&file, "").unwrap();
    budgets(root.path(), limit()).admit(None, &used(0)).unwrap();
    fs::write(&file, "{\"window\":").unwrap();
    assert!(matches!(
        budgets(root.path(), limit()).admit(None, &used(0)),
        Err(Over::Broken { .. })
    ));
}

#[test]
fn reservation_bars_others_until_it_is_released() {
    let root = tempfile::tempdir().unwrap();
    let limit =
        || settings::Budget { tokens: Some(Valued::default_of(100)), ..budget(Window::Month) };
    let (one, other) = (budgets(root.path(), limit()), budgets(root.path(), limit()));
    let file = root.path().join("state/budget/user.json");
    one.admit(None, &used(150)).unwrap();
    assert!(matches!(other.admit(None, &used(1)), Err(Over::Reserved { .. })));
    // What is reserved ends no answer that is under way.
    one.spend(None, &used(0), &used(90)).unwrap();
    one.release(None, &used(150));
    assert!(
        !fs::read_to_string(&file).unwrap().contains("reserved"),
        "as earlier versions have it"
    );
    other.admit(None, &used(1)).unwrap();
    // A session that is killed gives nothing back.
    drop(other);
    one.spend(None, &used(90), &used(99)).unwrap();
    assert!(matches!(one.admit(None, &used(1)), Err(Over::Reserved { .. })));
    let largest = used(u64::MAX);
    one.release(None, &largest);
    one.admit(None, &largest).unwrap();
    assert!(fs::metadata(&file).unwrap().len() <= SIZE as u64);
}

#[test]
fn money_is_reserved_by_the_models_price() {
    let root = tempfile::tempdir().unwrap();
    let limit = settings::Budget {
        usd: Some(Valued::default_of("0.01".parse().unwrap())),
        ..budget(Window::Session)
    };
    let budgets = budgets(root.path(), limit);
    let model = Some("claude-sonnet-4-5");
    budgets.admit(model, &used(3333)).unwrap();
    budgets.admit(model, &used(1)).unwrap();
    assert!(matches!(budgets.admit(model, &used(0)), Err(Over::Reserved { .. })));
    budgets.release(model, &used(3333));
    budgets.admit(model, &used(0)).unwrap();
}
