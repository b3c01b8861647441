//! The form for a reader: entries by scope, those of one title as one, rules first.

use crate::entry::Entry;
use crate::pack::{Pack, PackedEntry};

/// Rules of an entry and words of a section at most.
const MOST_RULES: usize = 5;
const MOST_TERMS: usize = 6;
/// Wrappers around the text of an entry that other programs add.
const WRAPPERS: [&str; 3] = ["moltnet-signed", "metadata", "signature"];

/// Who wrote an entry that nobody signed.
const UNKNOWN_AGENT: &str = "unkn";

/// An entry with what the pack says of it.
type Item<'a> = (&'a PackedEntry, &'a Entry);

/// Entries of one title.
struct Section<'a> {
    title: String,
    items: Vec<Item<'a>>,
}

/// Sections of one scope.
struct Group<'a> {
    scope: String,
    sections: Vec<Section<'a>>,
}

/// Renders a pack.
pub(super) fn render(pack: &Pack) -> String {
    let items: Vec<Item<'_>> = pack
        .entries
        .iter()
        .filter_map(|packed| packed.entry.as_ref().map(|entry| (&packed.packed, entry)))
        .collect();
    let mut lines = vec![
        "# Rendered Pack".to_owned(),
        String::new(),
        "## Source".to_owned(),
        String::new(),
        "| Pack UUID | Pack CID | Entries |".to_owned(),
        "| --------- | -------- | ------- |".to_owned(),
        format!("| `{}` | `{}` | {} |", pack.id, pack.cid, items.len()),
        String::new(),
    ];
    if items.is_empty() {
        lines.push("_This pack has no expanded entries._".to_owned());
    }
    for group in groups(&items) {
        lines.extend([format!("## {}", title_case(&group.scope)), String::new()]);
        for section in &group.sections {
            lines.extend(section_lines(&group.scope, section));
        }
    }
    lines.join("\n").trim().to_owned()
}

/// Returns the entries by scope and title, each in the order in which it comes first.
fn groups<'a>(items: &[Item<'a>]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for item in items {
        let (_, entry) = item;
        let scope = tag_value(entry, "scope:").unwrap_or_else(|| "general".to_owned());
        let at = groups.iter().position(|group| group.scope == scope).unwrap_or_else(|| {
            groups.push(Group { scope, sections: Vec::new() });
            groups.len() - 1
        });
        let sections = &mut groups[at].sections;
        let title = title_of(entry);
        let same = |section: &Section<'_>| normal(&section.title) == normal(&title);
        match sections.iter().position(same) {
            Some(at) => sections[at].items.push(*item),
            None => sections.push(Section { title, items: vec![*item] }),
        }
    }
    groups
}

fn section_lines(scope: &str, section: &Section<'_>) -> Vec<String> {
    let Section { title, items } = section;
    let mut lines = vec![format!("### {title}"), String::new()];
    lines.push(format!("**Subsystem:** {scope}"));
    if let Some(severity) = items.iter().find_map(|(_, entry)| tag_value(entry, "severity:")) {
        lines.push(format!("**Severity:** {severity}"));
    }
    lines.extend(items.first().map(|(_, entry)| format!("**Type:** {}", entry.entry_type)));
    lines.push(String::new());
    let bodies: Vec<String> =
        items.iter().map(|(_, entry)| without_wrappers(&entry.content)).collect();
    let mut rules: Vec<&str> = Vec::new();
    for rule in bodies.iter().flat_map(|body| rules_of(body).take(MOST_RULES)) {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    if !rules.is_empty() {
        lines.extend(["**Rules**".to_owned(), String::new()]);
        lines.extend(rules.iter().map(|rule| format!("- {rule}")));
        lines.push(String::new());
    }
    lines.extend([bodies.join("\n\n"), String::new()]);
    let terms = terms(items);
    if !terms.is_empty() {
        let terms: Vec<String> = terms.iter().map(|term| format!("`{term}`")).collect();
        lines.extend([
            format!("Relevant search terms include {}.", terms.join(", ")),
            String::new(),
        ]);
    }
    lines.extend(["Provenance:".to_owned(), String::new()]);
    lines.extend(
        items
            .iter()
            .map(|(packed, _)| format!("- Entry ID `{}`, CID `{}`", packed.entry, packed.cid)),
    );
    let sources: Vec<String> = items
        .iter()
        .map(|(packed, _)| format!("[`e:{}`](@unknown · agent:{UNKNOWN_AGENT})", short(packed)))
        .collect();
    lines.extend([String::new(), format!("*Sources: {}*", sources.join(", ")), String::new()]);
    lines
}

fn title_of(entry: &Entry) -> String {
    let title = entry.title.as_deref().map(str::trim).filter(|title| !title.is_empty());
    title.map_or_else(|| format!("Entry {}", &entry.id.to_string()[..8]), one_line)
}

fn short(packed: &PackedEntry) -> String {
    packed.entry.to_string()[..8].to_owned()
}

/// Returns what of a title two entries have in common that are about one thing.
fn normal(title: &str) -> String {
    one_line(title).to_lowercase()
}

fn tag_value(entry: &Entry, prefix: &str) -> Option<String> {
    let values = entry.tags.iter().filter_map(|tag| tag.strip_prefix(prefix));
    values.map(one_line).find(|value| !value.is_empty())
}

/// Returns a text without what would begin another line, which the reader could take for one of the pack's.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the lines that say what must be or must not be.
fn rules_of(body: &str) -> impl Iterator<Item = &str> {
    body.lines().map(|line| line.trim().trim_start_matches(['-', '*', ' '])).filter(|line| {
        let lower = line.to_lowercase();
        let begins = ["rule:", "watch for:", "must", "never"];
        begins.iter().any(|begin| lower.starts_with(begin))
            || line.contains("MUST")
            || line.contains("NEVER")
    })
}

fn terms(items: &[Item<'_>]) -> Vec<String> {
    let mut terms: Vec<String> = Vec::new();
    for tag in items.iter().flat_map(|(_, entry)| &entry.tags) {
        let is_term = !tag.starts_with("scope:") && !tag.starts_with("severity:");
        let term = one_line(tag);
        if is_term && !terms.contains(&term) && terms.len() < MOST_TERMS {
            terms.push(term);
        }
    }
    terms
}

/// Returns a text without what other programs wrap around it: a signed text stays, what is said about it goes.
pub(crate) fn without_wrappers(content: &str) -> String {
    let [signed, others @ ..] = WRAPPERS;
    let mut text = content.to_owned();
    for name in others {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        while let Some(begin) = text.find(&open) {
            let Some(length) = text[begin..].find(&close) else { break };
            text.replace_range(begin..begin + length + close.len(), "");
        }
    }
    for mark in [format!("<{signed}>"), format!("</{signed}>")] {
        text = text.replace(&mark, "");
    }
    text.trim().to_owned()
}

fn title_case(scope: &str) -> String {
    let words: Vec<String> = scope
        .split(['-', '_', ' ', '/', ':'])
        .filter(|word| !word.is_empty())
        .map(|word| {
            let mut letters = word.chars();
            let first = letters.next().map(|letter| letter.to_uppercase().to_string());
            first.unwrap_or_default() + letters.as_str()
        })
        .collect();
    words.join(" ")
}
