//! References as one file (git-pack-refs(1)): fifty thousand of them cost one write instead of as
//! many files.

use std::collections::BTreeMap;

/// What git expects of a file whose references are sorted by their names.
const HEADER: &[u8] = b"# pack-refs with: sorted \n";
/// Bytes of most lines.
const LINE: usize = 96;

/// One packed reference.
struct Entry<'a> {
    name: &'a [u8],
    /// Its line, and a second one if a tag leads to another object; without the last line feed.
    lines: &'a [u8],
}

/// Merges packed references with loose ones, which count more. Loose ones are by their full names, each
/// with its object.
pub fn with_loose(packed: &[u8], loose: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let made: Vec<(&[u8], Vec<u8>)> = loose
        .iter()
        .map(|(name, object)| (name.as_slice(), [object.as_slice(), b" ", name].concat()))
        .collect();
    let mut all = entries(packed);
    all.extend(made.iter().map(|(name, line)| Entry { name, lines: line }));
    if !all.is_sorted_by(|one, other| one.name < other.name) {
        // The sort is stable, so the last one of a name stays the last, and that one counts.
        all.sort_by(|one, other| one.name.cmp(other.name));
        all.reverse();
        all.dedup_by(|one, other| one.name == other.name);
        all.reverse();
    }
    let mut merged = Vec::with_capacity(HEADER.len() + packed.len() + made.len() * LINE);
    merged.extend_from_slice(HEADER);
    for entry in all {
        merged.extend_from_slice(entry.lines);
        merged.push(b'\n');
    }
    merged
}

/// Lists packed references as they stand.
fn entries(packed: &[u8]) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::with_capacity(packed.len() / LINE);
    let (mut start, mut last) = (0, None);
    for line in packed.split(|byte| *byte == b'\n') {
        let end = start + line.len();
        if line.starts_with(b"^") {
            // It belongs to the reference in the line before it.
            if let Some((first, entry)) = last.take().zip(entries.last_mut()) {
                entry.lines = &packed[first..end];
            }
        } else if let Some(space) = line.iter().position(|byte| *byte == b' ')
            && !line.starts_with(b"#")
        {
            entries.push(Entry { name: &line[space + 1..], lines: line });
            last = Some(start);
        } else {
            last = None;
        }
        start = end + 1;
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loose_references_replace_packed_ones_and_all_are_sorted() {
        let packed = b"# pack-refs with: peeled fully-peeled sorted \n1 refs/heads/b\n2 refs/tags/t\n^3\n4 refs/tags/u\n^5\n";
        let loose =
            [(b"refs/tags/u".to_vec(), b"6".to_vec()), (b"refs/heads/a".to_vec(), b"7".to_vec())];
        let expected = "# pack-refs with: sorted \n7 refs/heads/a\n1 refs/heads/b\n2 refs/tags/t\n^3\n6 refs/tags/u\n";
        assert_eq!(String::from_utf8(with_loose(packed, &loose.into())).unwrap(), expected);
    }

    #[test]
    fn references_out_of_order_are_sorted_and_the_last_of_a_name_counts() {
        let packed = b"1 refs/heads/b\n2 refs/heads/a\n^3\n\n^9\n4 refs/heads/b\nnothing\n";
        let merged = with_loose(packed, &BTreeMap::new());
        let expected = "# pack-refs with: sorted \n2 refs/heads/a\n^3\n4 refs/heads/b\n";
        assert_eq!(String::from_utf8(merged).unwrap(), expected);
        assert_eq!(with_loose(b"", &BTreeMap::new()), HEADER);
    }
}
