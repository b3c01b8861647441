use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

use clap::{CommandFactory as _, Parser as _};
use clap_mangen::Man;

use super::{Cli, suggest};

/// Where the reference of the command line lies.
const REFERENCE: &str = "../../docs/reference/command-line.md";

/// Set to write it again.
const WRITE: &str = "PINFOLD_WRITE_REFERENCE";
/// Names the directory that `cargo xtask man` wants manual pages in.
const MANUAL: &str = "PINFOLD_WRITE_MANUAL";

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
fn misspelt_command_gets_the_nearest_one_and_an_agent_its_own() {
    let said = |words: &[&str]| {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let error = Cli::try_parse_from(&words).unwrap_err();
        suggest(error, Cli::command(), words).to_string()
    };
    for (words, meant) in [
        (vec!["pinfold", "rnu"], "run"),
        (vec!["pinfold", "snapshto"], "snapshot"),
        (vec!["pinfold", "docter", "x"], "doctor"),
        (vec!["pinfold", "task", "lnad"], "land"),
    ] {
        let said = said(&words);
        assert!(said.contains(&format!("a similar subcommand exists: '{meant}'")), "{said}");
    }
    // Which is nearer to `ps`.
    let said_of_an_agent = said(&["pinfold", "pi"]);
    assert!(said_of_an_agent.contains("'pinfold run pi' starts"), "{said_of_an_agent}");
    assert!(said(&["pinfold", "version"]).contains("'pinfold --version'"));
    for words in [["pinfold", "run", "ls", "-la"], ["pinfold", "run", "claude", "-p"]] {
        let said = said(&words);
        assert!(said.contains("'pinfold run -- ls -la'") && !said.contains("'-- -"), "{said}");
    }
    let misspelt = said(&["pinfold", "run", "--memry", "1G"]);
    assert!(misspelt.contains("'--memory'") && !misspelt.contains("`--`"), "{misspelt}");
    let said_of_none = said(&["pinfold", "xyzzy"]);
    assert!(!said_of_none.contains("tip:"), "{said_of_none}");
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

/// Writes the manual page of a command, and those of the commands below it, except hidden ones.
fn write_manual(directory: &Path, name: &str, command: &clap::Command) -> Vec<String> {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    let below: Vec<&clap::Command> = shown.filter(|below| below.get_name() != "help").collect();
    let page = name.replace(' ', "-");
    let examples = command.get_after_help().map(ToString::to_string);
    let own = command.clone().display_name(page.clone()).bin_name(name);
    let manual = Man::new(own.disable_help_subcommand(true))
        .title(page.clone())
        .section("1")
        .source(concat!("pinfold ", env!("CARGO_PKG_VERSION")))
        .manual("pinfold");
    let mut text = Vec::new();
    manual.render_title(&mut text).unwrap();
    manual.render_name_section(&mut text).unwrap();
    manual.render_synopsis_section(&mut text).unwrap();
    manual.render_description_section(&mut text).unwrap();
    manual.render_options_section(&mut text).unwrap();
    if !below.is_empty() {
        manual.render_subcommands_section(&mut text).unwrap();
    }
    text.extend(examples.iter().flat_map(|examples| verbatim(examples)));
    std::fs::write(directory.join(format!("{page}.1")), text).unwrap();
    let mut pages = vec![page];
    for command in below {
        let name = format!("{name} {}", command.get_name());
        pages.extend(write_manual(directory, &name, command));
    }
    pages
}

/// Returns the text after the help of a command as a section whose lines stay as they are (groff_man(7)).
fn verbatim(text: &str) -> Vec<u8> {
    let text = text.trim_start_matches("Examples:").trim_start_matches('\n');
    let line = |line: &str| format!("\\&{}\n", line.replace('\\', "\\e").replace('-', "\\-"));
    let lines: String = text.lines().map(line).collect();
    format!(".SH EXAMPLES\n.nf\n{lines}.fi\n").into_bytes()
}

#[test]
fn every_command_has_a_manual_page() {
    let made = tempfile::tempdir().unwrap();
    let asked = std::env::var_os(MANUAL).map(std::path::PathBuf::from);
    let directory = asked.as_deref().unwrap_or(made.path());
    std::fs::create_dir_all(directory).unwrap();
    let pages = write_manual(directory, "pinfold", &described());
    for name in ["pinfold", "pinfold-run", "pinfold-snapshot-build", "pinfold-clean"] {
        assert!(pages.iter().any(|page| page == name), "{name}: {pages:?}");
    }
    for page in pages {
        let text = std::fs::read_to_string(directory.join(format!("{page}.1"))).unwrap();
        let (title, rest) = text.split_once(".SH NAME\n").unwrap();
        assert!(title.contains(&format!(".TH {page} 1")), "{page}: {title}");
        assert!(rest.contains(".SH SYNOPSIS\n") && rest.contains(".SH OPTIONS\n"), "{page}");
    }
}
