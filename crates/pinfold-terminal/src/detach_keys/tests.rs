use super::*;

fn watching(keys: &str) -> Watching {
    Watching::new(keys.parse().unwrap())
}

#[test]
fn keys_are_written_as_they_are_read() {
    for keys in ["ctrl-p,ctrl-q", "ctrl-a,d", "ctrl-],ctrl-@", "~,."] {
        assert_eq!(keys.parse::<DetachKeys>().unwrap().to_string(), keys);
    }
    for none in ["", "ctrl-", "ctrl-P", "ctrl-pq", "ab", "ctrl-p,", "\u{e4}"] {
        assert_eq!(none.parse::<DetachKeys>(), Err(BadKeys), "{none}");
    }
}

#[test]
fn only_the_whole_sequence_detaches_and_nothing_else_is_lost() {
    let mut keys = watching("ctrl-p,ctrl-q");
    assert_eq!(keys.read(b"a\x10"), (b"a".to_vec(), false));
    assert!(keys.is_holding());
    assert_eq!(keys.read(b"b"), (b"\x10b".to_vec(), false));
    assert_eq!(keys.read(b"\x10"), (b"".to_vec(), false));
    assert_eq!(keys.let_go(), b"\x10");
    assert_eq!(keys.read(b"\x11"), (b"\x11".to_vec(), false));
    assert_eq!(keys.read(b"x\x10\x11y"), (b"x".to_vec(), true));
}

#[test]
fn a_beginning_within_a_beginning_counts() {
    let mut keys = watching("ctrl-p,ctrl-p,ctrl-q");
    assert_eq!(keys.read(b"\x10\x10\x10"), (b"\x10".to_vec(), false));
    assert_eq!(keys.read(b"\x11"), (Vec::new(), true));
}

#[test]
fn keys_that_come_as_sequences_are_the_same_keys() {
    let typed = b"\x1b[112;5u\x1b[27;5;113~";
    assert_eq!(watching("ctrl-p,ctrl-q").read(typed), (Vec::new(), true));
    let mut keys = watching("ctrl-p,ctrl-q");
    assert_eq!(keys.read(b"\x1b[112;5u"), (b"".to_vec(), false));
    // As it came.
    assert_eq!(keys.read(b"z"), (b"\x1b[112;5uz".to_vec(), false));
    for other in [&b"\x1b"[..], b"\x1b[A", b"\x1b[112;6u", b"\x1b[1", b"\x1b[999;5u"] {
        assert_eq!(keys.read(other), (other.to_vec(), false));
    }
}
