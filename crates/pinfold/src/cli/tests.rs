use std::fmt::Write as _;
use std::path::Path;

use clap::CommandFactory as _;

use super::Cli;

/// Where the reference of the command line lies.
const REFERENCE: &str = "../../docs/reference/command-line.md";

/// Set to write it again.
const WRITE: &str = "PINFOLD_WRITE_REFERENCE";

/// Returns the complete description of the command line, as shown on a terminal of 100 columns.
fn described() -> clap::Command {
    let mut command = Cli::command().term_width(100);
    command.build();
    command
}

/// Appends the help of a command and of those below it, except hidden ones.
fn append(page: &mut String, name: &str, command: &clap::Command) {
    let help = command.clone().term_width(100).bin_name(name).render_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    write!(page, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n")).unwrap();
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    for command in shown.filter(|command| command.get_name() != "help") {
        append(page, &format!("{name} {}", command.get_name()), command);
    }
}

#[test]
fn reference_of_the_command_line_is_current() {
    let mut page =
        "# Command line\n\nGenerated from the program's own help; a test compares them.\n"
            .to_owned();
    append(&mut page, "pinfold", &described());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(REFERENCE);
    if std::env::var_os(WRITE).is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "write it again: `{WRITE}=1 cargo test -p pinfold --bin pinfold cli`");
}

#[test]
fn overview_lists_each_command_once_with_its_own_description() {
    let overview = Cli::command().render_help().to_string();
    let mut command = described();
    let shown: Vec<(String, String)> = command
        .get_subcommands_mut()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
        .map(|command| (command.get_name().to_owned(), command.get_about().unwrap().to_string()))
        .collect();
    for (name, about) in shown {
        let line = format!("  {name:<12}  {about}");
        let found = overview.lines().filter(|found| *found == line).count();
        assert_eq!(found, 1, "data/help.txt needs the line {line:?}");
    }
}

#[test]
fn values_of_an_option_are_listed_and_misspelt_ones_get_a_suggestion() {
    let parse =
        |words: &[&str]| Cli::command().try_get_matches_from(words).unwrap_err().to_string();
    let error = parse(&["pinfold", "run", "--workspace", "overlai", "--", "true"]);
    assert!(error.contains("possible values: shared_mount"), "{error}");
    assert!(error.contains("a similar value exists: 'overlay'"), "{error}");
    let error = parse(&["pinfold", "rum"]);
    assert!(error.contains("'run'"), "{error}");
}
