//! The plain form: each entry with what the pack says of it.

use pinfold_content::times;

use super::local::one_line;
use crate::pack::Pack;

pub(super) fn render(pack: &Pack) -> String {
    let created = times::write(pack.created_at);
    let entries: Vec<_> = pack
        .entries
        .iter()
        .filter_map(|packed| packed.entry.as_ref().map(|entry| (&packed.packed, entry)))
        .collect();
    let mut lines = vec![
        format!("# Context Pack {}", pack.id),
        String::new(),
        format!("- Created: {created}"),
        format!("- Entries: {}", entries.len()),
        String::new(),
    ];
    for (number, (packed, entry)) in (1..).zip(entries) {
        let title = entry
            .title
            .as_deref()
            .filter(|title| !title.is_empty())
            .map_or_else(|| format!("Entry {number}"), one_line);
        lines.extend([
            format!("### {title}"),
            String::new(),
            format!("- Entry ID: `{}`", packed.entry),
            format!("- CID: `{}`", packed.cid),
            format!("- Compression: `{}`", packed.level),
            format!("- Tokens: {}/{}", packed.packed_tokens, packed.original_tokens),
            String::new(),
            entry.content.clone(),
            String::new(),
        ]);
    }
    lines.join("\n")
}
