use std::io::Write as _;

use super::*;

#[test]
fn only_the_end_of_a_flood_is_kept_and_it_is_text() {
    let (ours, mut theirs) = std::io::pipe().unwrap();
    let writer = std::thread::spawn(move || {
        for _ in 0..10_000 {
            theirs.write_all(b"\x1b]0;title\x07line\xff\r\n").unwrap();
        }
        theirs.write_all(b"the end").unwrap();
    });
    let said = Said::from(OwnedFd::from(ours)).until_end();
    writer.join().unwrap();
    assert!(said.ends_with("line\u{fffd}\nthe end\n"), "{said:?}");
    assert!(said.len() <= 2 * KEPT);
    assert!(said.chars().all(|character| character == '\n' || !character.is_control()));
}
