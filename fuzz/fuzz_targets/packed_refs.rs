//! Packed references as an agent may leave them behind.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use pinfold_git::packed::with_loose;

fuzz_target!(|bytes: &[u8]| {
    let none = BTreeMap::new();
    let object = vec![b'1'; 40];
    let loose = BTreeMap::from([(b"refs/heads/main".to_vec(), object.clone())]);
    let merged = with_loose(bytes, &loose);
    let line = [&object[..], b" refs/heads/main"].concat();
    let own: Vec<&[u8]> = merged
        .split(|byte| *byte == b'\n')
        .filter(|line| {
            !line.starts_with(b"#")
                && !line.starts_with(b"^")
                && line.ends_with(b" refs/heads/main")
        })
        .filter(|line| line.iter().filter(|byte| **byte == b' ').count() == 1)
        .collect();
    assert_eq!(own, [line.as_slice()], "a loose reference counts more");
    assert_eq!(with_loose(&merged, &none), merged, "what was written is read as it was meant");
});
