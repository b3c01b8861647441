//! The reference page of the settings files, generated from the tables of known keys.

use std::fmt::Write as _;

use pinfold_policy::document::{Key, Shape};

use super::FILES;

const TOP: &str = "\
# Settings

Generated from the tables of keys that the readers use; a test compares them. Layers are merged as
[projects](../guides/projects.md) describes: flags, your file, the repository's file, and the administrator's as the ceiling.
`pinfold config --origins` shows where a value comes from. The schemas in `schema/` are for editors.
`NAME` stands for a name of your choice, and `[]` for each item of a list.
";

/// Returns the page, in Markdown.
#[must_use]
pub fn page() -> String {
    let mut page = TOP.to_owned();
    for file in FILES {
        _ = write!(
            page,
            "\n## {}\n\n| key | value | what it says |\n|---|---|---|\n",
            file.heading
        );
        append(&mut page, "", file.keys);
    }
    page
}

/// Appends a row for each key of a table, and for those below it.
fn append(page: &mut String, above: &str, keys: &[Key]) {
    for Key { name, shape, doc } in keys {
        let name = format!("{above}{name}");
        _ = writeln!(page, "| `{name}` | {} | {} |", cell(&value(shape)), cell(doc));
        below(page, &name, shape);
    }
}

/// Appends the keys of the tables that a value of this shape holds.
fn below(page: &mut String, name: &str, shape: &Shape) {
    match shape {
        Shape::Table(keys) => append(page, &format!("{name}."), keys),
        Shape::List(item) => below(page, &format!("{name}[]"), item),
        Shape::Map(_, value) => below(page, &format!("{name}.NAME"), value),
        Shape::Either(one, other) => {
            below(page, name, one);
            below(page, name, other);
        }
        Shape::Text
        | Shape::Pattern(_)
        | Shape::Choice(_)
        | Shape::Flag
        | Shape::Count
        | Shape::Whole
        | Shape::Amount
        | Shape::Cpus => {}
    }
}

/// Says what a value looks like.
fn value(shape: &Shape) -> String {
    match shape {
        Shape::Text => "text".to_owned(),
        Shape::Pattern(pattern) => format!("text like `{pattern}`"),
        Shape::Choice(words) => {
            words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        }
        Shape::Flag => "`true` or `false`".to_owned(),
        Shape::Count => "a whole number from 1".to_owned(),
        Shape::Whole => "a whole number from 0".to_owned(),
        Shape::Amount => "a number from 0".to_owned(),
        Shape::Cpus => "a number of CPUs, such as 0.5".to_owned(),
        Shape::Either(one, other) => format!("{}, or {}", value(one), value(other)),
        Shape::List(item) => format!("a list: {}", value(item)),
        Shape::Map(_, item) => format!("a table by name: {}", value(item)),
        Shape::Table(_) => "a table".to_owned(),
    }
}

/// Returns text as it may stand in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
