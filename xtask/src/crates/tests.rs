use std::collections::BTreeMap;

use super::{BEGIN, Crate, END, lines_without_tests, parts, render, shown_lines, sorted};

fn sample(name: &str, lines: usize, uses: &[&str]) -> Crate {
    Crate {
        name: name.to_owned(),
        description: "Does it".to_owned(),
        never: "more".to_owned(),
        lines,
        uses: uses.iter().map(|name| (*name).to_owned()).collect(),
    }
}

#[test]
fn modules_of_tests_are_not_counted() {
    let file = "fn a() {\n}\n\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\n";
    assert_eq!(lines_without_tests(file, |_| true), 3);
    assert_eq!(
        lines_without_tests("fn a() {}\n#[cfg(test)]\nmod tests;\nfn b() {}\n", |_| true),
        2
    );
    assert_eq!(lines_without_tests("#[cfg(test)]\nfn a() {}\n", |line| line != "fn a() {}"), 1);
}

#[test]
fn crate_stands_above_what_it_uses() {
    let crates = [sample("a", 1, &[]), sample("b", 1, &["a"]), sample("c", 1, &["b", "d"])];
    let crates = sorted(crates.into_iter().chain([sample("d", 1, &[])]).collect());
    let names: Vec<&str> = crates.iter().map(|each| each.name.as_str()).collect();
    assert_eq!(names, ["c", "b", "a", "d"]);
}

#[test]
fn count_changes_once_it_is_a_tenth_off() {
    let first = render(&[sample("pinfold-a", 4_980, &["pinfold-b"])], &BTreeMap::new());
    assert!(first.ends_with("| `pinfold-a` | Does it | more | 5000 | b |\n"), "{first}");
    let shown = shown_lines(&first);
    assert_eq!(render(&[sample("pinfold-a", 5_400, &["pinfold-b"])], &shown), first);
    let grown = render(&[sample("pinfold-a", 5_601, &["pinfold-b"])], &shown);
    assert!(grown.contains("| 5700 |"), "{grown}");
}

#[test]
fn table_lies_between_its_markers() {
    let document = format!("before\n{BEGIN}| a |\n{END}after\n");
    let (before, table, after) = parts(&document).unwrap();
    assert_eq!((before.ends_with(BEGIN), table), (true, "| a |\n"));
    assert_eq!(after, format!("{END}after\n"));
    parts("no table\n").unwrap_err();
}
