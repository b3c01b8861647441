use std::fs;
use std::path::Path;

use pinfold_boundary::Feature;
use pinfold_host::launcher::Launcher;
use pinfold_host::wrappers::Wrappers;

use super::{Choice, Own, all, choices};

const BEGIN: &str = "<!-- what each has: made by the tests -->\n";
const END: &str = "<!-- end -->\n";

/// The table of `docs/guides/boundaries.md`, made of what boundaries declare. `PINFOLD_UPDATE_DOCS=1` writes it.
#[test]
fn the_documentation_says_what_boundaries_declare() {
    let mut table = String::from("| boundary |");
    table.extend(Feature::ALL.map(|feature| format!(" {} |", feature.words())));
    table.push_str("\n|---|");
    table.extend(Feature::ALL.map(|_| "---|"));
    table.push('\n');
    let launcher = Launcher::new(Wrappers::none());
    for boundary in all(Own::default(), &[], &launcher).unwrap() {
        table.push_str(&format!("| {} |", boundary.name()));
        let has =
            |feature| if boundary.lacks().contains(&feature) { " **no** |" } else { " yes |" };
        table.extend(Feature::ALL.map(has));
        table.push('\n');
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/boundaries.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    if std::env::var_os("PINFOLD_UPDATE_DOCS").is_some() {
        fs::write(&path, [before, BEGIN, &table, END, after].concat()).unwrap();
    } else {
        assert_eq!(written, table, "PINFOLD_UPDATE_DOCS=1 writes it");
    }
}

/// Where nobody names one: Apple's first on its own system, and nowhere else (requirement 2.3).
#[test]
fn engines_are_chosen_in_the_order_of_their_system() {
    let is_apple = |choice: &Choice| *choice == Choice::Apple;
    assert!(is_apple(&choices("macos")[0]));
    assert_eq!(choices("macos")[1], choices("linux")[0], "then Docker");
    assert!(!choices("linux").iter().any(is_apple));
}
