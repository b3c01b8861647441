use super::*;

#[test]
fn only_keys_take_a_notice_away() {
    for bytes in [&b"x"[..], b"\x1b", b"\r", b"pasted text"] {
        assert!(is_key(bytes), "{bytes:?}");
    }
    // The position of the cursor, the focus, the mouse, colours.
    for bytes in [&b"\x1b[12;40R"[..], b"\x1b[I", b"\x1b[<35;1;1M", b"\x1b]11;rgb:0/0/0\x1b\\"] {
        assert!(!is_key(bytes), "{bytes:?}");
    }
}

#[test]
fn a_notice_fits_into_every_window() {
    let notice = ["x".repeat(1024)];
    for (rows, columns) in [(1, 1), (2, 80), (24, 80), (50, 10)] {
        let shown = text(&notice, (rows, columns));
        assert!(!shown.contains('\n') && shown.matches(";1H").count() <= rows, "{shown:?}");
    }
    assert!(text(&["a".to_owned(), "b".to_owned()], (24, 80)).contains("pinfold: b"));
}

#[test]
fn page_is_drawn_for_a_new_line_or_size_and_rings_for_lines() {
    let mut page = Page::new(vec!["first".to_owned()]);
    assert!(page.draw((24, 80)).unwrap().ends_with('\x07'));
    assert_eq!(page.draw((24, 80)), None);
    assert!(!page.draw((24, 40)).unwrap().contains('\x07'));
    page.add("second".to_owned());
    let drawn = page.draw((24, 40)).unwrap();
    assert!(drawn.contains("pinfold: second") && drawn.ends_with('\x07'), "{drawn:?}");
    // A key at once may have been meant for the program.
    assert!(!page.is_over(true));
}
