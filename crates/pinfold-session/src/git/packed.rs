//! References as one file (git-pack-refs(1)): fifty thousand of them cost one write instead of as
//! many files.

use std::collections::BTreeMap;

/// The packed references with loose ones, which count more. Loose ones are by their full names,
/// each with its object.
pub(crate) fn with_loose(packed: &[u8], loose: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    // Name, and the lines of it: the second one, if there is one, is what a tag leads to.
    let mut all: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    let mut last: Option<&[u8]> = None;
    for line in packed.split(|byte| *byte == b'\n') {
        if line.starts_with(b"^") {
            if let Some(lines) = last.and_then(|name| all.get_mut(name)) {
                lines.push(line);
            }
        } else if let Some(at) = line.iter().position(|byte| *byte == b' ')
            && !line.starts_with(b"#")
        {
            let name = &line[at + 1..];
            last = Some(name);
            all.insert(name, vec![line]);
        }
    }
    let made: Vec<(&[u8], Vec<u8>)> = loose
        .iter()
        .map(|(name, object)| (name.as_slice(), [object.as_slice(), b" ", name].concat()))
        .collect();
    for (name, line) in &made {
        all.insert(name, vec![line]);
    }
    let mut new = b"# pack-refs with: sorted \n".to_vec();
    for line in all.values().flatten() {
        new.extend_from_slice(line);
        new.push(b'\n');
    }
    new
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
}
