//! `cargo xtask links`: links in documents lead to files and headings that exist, the source files that
//! the contributors' pages name exist, and the documentation's summary lists every page.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::cargo::{command, output};

/// The pages that name source files.
const CONTRIBUTORS: [&str; 2] = ["ARCHITECTURE.md", "docs/where-to-look.md"];
const PAGES: &str = "docs/";
const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks all documents that git has.
///
/// # Errors
/// Returns every link that leads nowhere, a line each.
pub(crate) fn run() -> Outcome {
    let top = output(command("git").args(["rev-parse", "--show-toplevel"]))?;
    let top = Path::new(top.trim_end());
    let listed = output(command("git").current_dir(top).args(["ls-files", "-z", "--", "*.md"]))?;
    let mut broken = Vec::new();
    let summary = fs::read_to_string(top.join(SUMMARY))?;
    let listed_pages: BTreeSet<&str> = links(&summary).into_iter().collect();
    for name in listed.split_terminator('\0') {
        let path = top.join(name);
        // One that was removed and is still in the index.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let page = name.strip_prefix(PAGES).filter(|_| name != SUMMARY);
        if page.is_some_and(|page| !listed_pages.contains(page)) {
            broken.push(format!("{SUMMARY}: {name} is missing"));
        }
        let links = links(&text).into_iter().filter(|link| !leads_somewhere(&path, link));
        broken.extend(links.map(|link| format!("{name}: {link}")));
        if CONTRIBUTORS.contains(&name) {
            let files = sources(&text).into_iter().filter(|file| !top.join(file).exists());
            broken.extend(files.map(|file| format!("{name}: {}", file.display())));
        }
    }
    if broken.is_empty() {
        Ok(())
    } else {
        Err(format!("broken links:\n{}", broken.join("\n")).into())
    }
}

/// Returns the targets of a document's links, those to other hosts left out.
fn links(text: &str) -> Vec<&str> {
    let outside_code = text.lines().flat_map(|line| line.split('`').step_by(2));
    let ends = outside_code.flat_map(|part| part.split("](").skip(1));
    let targets = ends.filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:")).collect()
}

/// Returns whether the file of a link exists, and the heading in it.
fn leads_somewhere(document: &Path, link: &str) -> bool {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = match (file, document.parent()) {
        ("", _) => document.to_owned(),
        (file, Some(directory)) => directory.join(file),
        (file, None) => PathBuf::from(file),
    };
    if heading.is_empty() {
        return target.exists();
    }
    fs::read_to_string(target).is_ok_and(|text| headings(&text).contains(heading))
}

/// Returns the names by which forges link to a document's headings.
fn headings(text: &str) -> BTreeSet<String> {
    let titles = text.lines().filter(|line| line.starts_with('#'));
    let name = |title: &str| {
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    titles.map(name).collect()
}

/// Returns the source files that a document names below `crates/`, with or without `pinfold-`.
fn sources(text: &str) -> Vec<PathBuf> {
    let quoted = text.split('`').skip(1).step_by(2);
    let named = quoted.filter(|name| name.contains("/src/") || name.contains("/data/"));
    let spelt = named.flat_map(alternatives);
    let crate_of = |name: &str| if name.starts_with("pinfold") { "" } else { "pinfold-" };
    spelt.map(|name| Path::new("crates").join(format!("{}{name}", crate_of(&name)))).collect()
}

/// Spells out `a/{b,c}.rs`.
fn alternatives(name: &str) -> Vec<String> {
    let parts =
        name.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (words, after))) = parts else { return vec![name.to_owned()] };
    words.split(',').map(|word| format!("{before}{word}{after}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_other_hosts_are_left_out() {
        let text = "[a](b.md#c), [d](https://example.com), `[g](h)` and [`e`](../f \"title\")";
        assert_eq!(links(text), ["b.md#c", "../f"]);
    }

    #[test]
    fn links_lead_to_files_and_to_their_headings() {
        let dir = tempfile::tempdir().unwrap();
        let document = dir.path().join("a.md");
        fs::write(&document, "# One thing, and `more`\n").unwrap();
        for link in ["a.md", "#one-thing-and-more", "a.md#one-thing-and-more"] {
            assert!(leads_somewhere(&document, link), "{link}");
        }
        for link in ["b.md", "#more", "b.md#one-thing-and-more"] {
            assert!(!leads_somewhere(&document, link), "{link}");
        }
    }

    #[test]
    fn named_source_files_are_spelt_out() {
        let found = sources("see `init/src/{a,b}.rs`, `pinfold-wire/src/` and `other`");
        let expected = ["pinfold-init/src/a.rs", "pinfold-init/src/b.rs", "pinfold-wire/src/"];
        assert_eq!(found, expected.map(|path| Path::new("crates").join(path)));
    }
}
