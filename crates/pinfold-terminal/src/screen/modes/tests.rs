use proptest::prelude::*;

use super::*;

fn after(written: &[u8]) -> Modes {
    let mut modes = Modes::default();
    modes.follow(written);
    modes
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn modes_of_an_editor_are_set_again_and_reset() {
    let modes = after(b"\x1b[?1049h\x1b[?1;25l\x1b[?1h\x1b=\x1b[?2004hhello\x1b[31m");
    assert_eq!(text(modes.enter()), "\x1b[?1049h\x1b[?1h\x1b[?25l\x1b[?2004h\x1b=");
    let left = text(modes.leave());
    for undone in ["\x1b[?1049l", "\x1b[?1l", "\x1b[?25h", "\x1b[?2004l", "\x1b>"] {
        assert!(left.contains(undone), "{left:?}");
    }
}

#[test]
fn mode_that_a_program_has_reset_itself_is_not_touched() {
    let modes = after(b"\x1b[?1049h\x1b[?25l\x1b[>1u\x1b[<u\x1b[?25h\x1b[?1049l");
    assert_eq!(text(modes.enter()), "");
    let left = text(modes.leave());
    assert!(!left.contains("?1049") && !left.contains("?25"), "{left:?}");
    let reset = after(b"\x1b[?1003h\x1b[>5u\x1bc");
    assert_eq!(text(reset.enter()), "");
}

#[test]
fn keyboards_are_stacked_as_in_the_terminal() {
    let modes = after(b"\x1b[>1u\x1b[>7u\x1b[>4;2m");
    assert_eq!(text(modes.enter()), "\x1b[>1u\x1b[>7u\x1b[>4;2m");
    assert!(text(modes.leave()).contains("\x1b[<2u"));
    let many = after("\x1b[>1u".repeat(1000).as_bytes());
    assert_eq!(text(many.enter()), "\x1b[>1u".repeat(16));
    assert!(text(many.leave()).contains("\x1b[<1000u"), "a terminal may have kept all");
    assert!(text(after(b"\x1b[=5u\x1b[>1u\x1b[<u").leave()).contains("\x1b[=0u"));
}

#[test]
fn keyboards_of_both_screens_are_taken_back() {
    let modes = after(b"\x1b[>1u\x1b[?1049h\x1b[>5u\x1b[>7u");
    assert_eq!(text(modes.enter()), "\x1b[>1u\x1b[?1049h\x1b[>5u\x1b[>7u");
    let left = text(modes.leave());
    let [alternate, switch, main] = ["\x1b[<2u", "\x1b[?1049l", "\x1b[<1u"].map(|it| left.find(it));
    assert!(alternate < switch && switch < main && alternate.is_some(), "{left:?}");
    let left = text(after(b"\x1b[?1049h\x1b[>5u\x1b[?1049l").leave());
    assert!(left.contains("\x1b[?1049h\x1b[<1u\x1b[?1049l"), "{left:?}");
}

#[test]
fn what_only_some_terminals_read_as_a_reset_is_reset_at_the_end() {
    let many = "0;".repeat(40);
    for written in [
        // Kitty, tmux and Alacritty know no control characters above U+007F.
        "\x1b[?1003;1049h\u{9b}?1003;1049l",
        "\u{9b}x\x1b[?1003;1049h\x1b[?1003;1049l",
        // GNU screen takes sequences in a string for text of the string.
        "\x1b[?1003;1049h\x1b_\x1b[?1003;1049l\x1b\\",
        "\x1b[?1003;1049h\x1bP\x07\x1bc\x1b\\",
        "\x1b[?1003;1049h\x1bktitle\x1b\n\\\x1b[?1003;1049l",
        // Some take more parameters than others.
        &format!("\x1b[?{many}1003;1049h"),
        // Bytes of Latin-1 are controls that nobody here reads.
        "\x1b%@",
    ] {
        let left = text(after(written.as_bytes()).leave());
        assert!(
            left.contains("\x1b[?1003l") && left.contains("\x1b[?1049l"),
            "{written:?}: {left:?}"
        );
    }
    for honest in
        ["\x1b[?1003;1049h\x1b]0;title\x07\x1b[?1003;1049l", "\x1b[?1003;1049h\x1bP+q\x1b\\\x1bc"]
    {
        let left = text(after(honest.as_bytes()).leave());
        assert!(!left.contains("1003") && !left.contains("1049"), "{honest:?}: {left:?}");
    }
}

#[test]
fn a_mode_is_followed_however_it_is_spelled() {
    for written in [
        "\x1b[?1049h",
        "\x1b[?10\n49h",
        "\x1b\r[?1049\x07h",
        "\x1b[?0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;0;1049h",
        "\x1b[?0001049h",
        "\u{9b}?1049h",
        "ě\u{9b}?1049h",
        "\x1b[?1049h\x1b[?1049s\x1b[?1049l\x1b[?1049r",
        "\x1b[5\x1b[?1049h",
        "\x1b[?5\x18\x1b[?1049h",
    ] {
        let modes = after(written.as_bytes());
        assert!(text(modes.leave_if_touched()).contains("\x1b[?1049l"), "{written:?}");
        let mut single = Modes::default();
        written.bytes().for_each(|byte| single.follow(&[byte]));
        assert_eq!(single.leave(), modes.leave(), "{written:?}");
    }
}

#[test]
fn text_alone_leaves_nothing_to_take_back() {
    assert!(after("plain, ě and ü\n".as_bytes()).leave_if_touched().is_empty());
    let hidden = text(after(b"\x1b[8m").leave_if_touched());
    assert!(hidden.ends_with("\x1b[0m"), "{hidden:?}");
    let colours = text(after(b"\x1b]10;#000\x07").leave_if_touched());
    assert!(colours.contains("\x1b]110\x1b\\"), "{colours:?}");
    assert!(!after(b"\x0e").leave_if_touched().is_empty());
}

proptest! {
    /// Where a read ends means nothing, whatever is written; and the sequences for a follower set the
    /// same modes in it.
    #[test]
    fn cuts_change_nothing(
        pieces in proptest::collection::vec(
            prop_oneof![
                Just(b"\x1b[?1049h".to_vec()), Just(b"\x1b[?25;1000l".to_vec()),
                Just(b"\x1b[>3u".to_vec()), Just(b"\x1b[<9u".to_vec()), Just(b"\x1b=".to_vec()),
                proptest::collection::vec(any::<u8>(), 0..12),
            ],
            0..20,
        ),
    ) {
        let all = pieces.concat();
        let whole = after(&all);
        let mut single = Modes::default();
        all.iter().for_each(|byte| single.follow(&[*byte]));
        prop_assert_eq!(whole.enter(), single.enter());
        let follower = after(&whole.enter());
        prop_assert_eq!(follower.enter(), whole.enter());
        let back = after(&[whole.enter(), whole.leave()].concat());
        prop_assert_eq!(back.enter(), b"");
    }
}

#[test]
fn alternate_screen_is_known_however_the_bytes_are_cut() {
    let mut modes = Modes::default();
    let mut after = |bytes: &[u8]| {
        modes.follow(bytes);
        modes.is_alternate()
    };
    assert!(after(b"text\x1b[?1049h"));
    assert!(after(b"\x1b[2J\x1b[?25l more"));
    assert!(after(b"\x1b[?10"));
    assert!(!after(b"49l"));
    assert!(after(b"\x1b[?25;47h"));
    assert!(!after(b"\x1b[\x1b[?1047l"));
    assert!(!after(b"\x1b[1049h\x1b]0;\x1b[?104h"));
    assert!(after(b"\x1b[?1049h") && !after(b"\x1bc"));
}
