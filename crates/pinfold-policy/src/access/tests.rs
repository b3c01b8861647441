use super::*;

#[test]
fn every_access_has_exactly_one_word() {
    for bit in Access::all().iter() {
        let words: Vec<_> = bit.words().collect();
        assert_eq!(words.len(), 1);
        assert_eq!(Access::from_word(words[0]), Some(bit));
    }
    assert_eq!(Access::from_word("chmod"), None);
}

#[test]
fn read_only_changes_nothing_and_runs() {
    assert!(!Access::READ_ONLY.intersects(Access::CHANGING));
    assert!(Access::READ_ONLY.contains(Access::EXECUTE));
    assert_eq!(Access::READ_ONLY | Access::CHANGING, Access::FULL);
    assert_eq!(Access::READ_ONLY.to_string(), "read, execute, list, watch, metadata");
    assert_eq!(Access::empty().to_string(), "nothing");
}
