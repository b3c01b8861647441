use super::*;
use proptest::prelude::*;

#[test]
fn normalisation_removes_dots_and_repeated_separators() {
    let path = HostPath::new("//a/./b//c/.").unwrap();
    assert_eq!(path.as_bytes(), b"/a/b/c");
    assert_eq!(HostPath::new("/").unwrap(), HostPath::root());
    assert_eq!(HostPath::new("/./").unwrap(), HostPath::root());
}

#[test]
fn relative_parent_and_nul_are_refused() {
    assert!(matches!(HostPath::new("a"), Err(PathError::Relative(_))));
    assert!(matches!(HostPath::new(""), Err(PathError::Relative(_))));
    assert!(matches!(HostPath::new("/a/../b"), Err(PathError::Parent(_))));
    assert!(matches!(InsidePath::from_bytes(b"/a\0b"), Err(PathError::Nul(_))));
}

#[test]
fn a_string_prefix_is_not_a_path_prefix() {
    let base = HostPath::new("/srv/a").unwrap();
    assert!(!HostPath::new("/srv/ab").unwrap().starts_with(&base));
    assert!(HostPath::new("/srv/a/b").unwrap().starts_with(&base));
    assert!(base.starts_with(&base));
    assert!(base.starts_with(&HostPath::root()));
}

#[test]
fn join_stays_below() {
    let base = InsidePath::new("/w").unwrap();
    assert_eq!(base.join("a/./b").unwrap(), InsidePath::new("/w/a/b").unwrap());
    assert_eq!(base.join("").unwrap(), base);
    assert!(matches!(base.join("../x"), Err(PathError::Parent(_))));
    assert!(matches!(base.join("/x"), Err(PathError::Absolute(_))));
}

#[test]
fn parents_end_at_the_root() {
    let path = HostPath::new("/a/b").unwrap();
    assert_eq!(path.parent(), Some(HostPath::new("/a").unwrap()));
    assert_eq!(HostPath::root().parent(), None);
    assert_eq!(path.depth(), 2);
    assert_eq!(HostPath::root().depth(), 0);
    assert_eq!(path.ancestors().count(), 3);
}

#[test]
fn a_name_cannot_forge_a_line() {
    let path = HostPath::from_bytes(b"/a\n\xff\x1b[2J\\x").unwrap();
    assert_eq!(path.to_string(), "/a\\n\\xff\\u{1b}[2J\\\\x");
    assert_eq!(path.escaped(), path.to_string());
    assert_eq!(HostPath::new("/é").unwrap().escaped(), "/é");
    assert!(!HostPath::new("/a\u{202e}b").unwrap().to_string().contains('\u{202e}'));
}

proptest! {
    #[test]
    fn bytes_decide_as_components_do(a in "/[a/.-]{0,8}", b in "/[a/.-]{0,8}") {
        if let (Ok(a), Ok(b)) = (HostPath::new(&a), HostPath::new(&b)) {
            prop_assert_eq!(a.starts_with(&b), a.as_path().starts_with(b.as_path()));
            prop_assert_eq!(a.strip_prefix(&b), a.as_path().strip_prefix(b.as_path()).ok());
            prop_assert_eq!(a == b, a.as_path() == b.as_path());
        }
    }

    #[test]
    fn any_bytes_give_an_error_or_a_normal_path(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(path) = HostPath::from_bytes(&bytes) {
            prop_assert!(path.as_bytes().starts_with(b"/"));
            prop_assert!(!path.as_bytes().windows(2).any(|pair| pair == b"//"));
            prop_assert_eq!(HostPath::from_bytes(path.as_bytes()).unwrap(), path);
        }
    }
}

#[test]
fn invisible_or_reordering_characters_are_not_plain() {
    let hidden = [
        '\u{1b}',
        '\u{9b}',
        '\n',
        '\t',
        '\u{7f}',
        '\u{200b}',
        '\u{ad}',
        '\u{2060}',
        '\u{3164}',
        '\u{115f}',
        '\u{34f}',
        '\u{180e}',
        '\u{fe0f}',
        '\u{feff}',
        '\u{e0065}',
        '\u{e0100}',
        '\u{202e}',
        '\u{2066}',
        '\u{61c}',
        '\u{2028}',
        '\u{a0}',
        '\u{2009}',
        '\u{3000}',
        '\u{2800}',
        '\u{ffa0}',
        '\u{17b4}',
        '\u{206a}',
        '\u{1d173}',
        '\u{1bca0}',
        '\u{fff9}',
    ];
    for character in hidden {
        assert!(!is_plain(character), "{character:?}");
        let name = format!("a{character}b");
        assert!(Escaped(Path::new(&name)).to_string().is_ascii(), "{name:?}");
        assert!(plain_line(&name).is_ascii(), "{name:?}");
    }
    for character in ['a', ' ', 'é', 'ß', 'я', '日', '🦀', 'ﬁ', 'ạ', '\\'] {
        assert!(is_plain(character), "{character:?}");
    }
}

#[test]
fn a_long_name_is_cut_between_characters() {
    let long = "é".repeat(3000) + "z";
    let brief = Brief(Path::new(&long)).to_string();
    assert!(brief.len() <= Brief::LONGEST && brief.ends_with("éz"), "{brief}");
    assert_eq!(Brief(Path::new("short")).to_string(), "short");
    for longest in 0..20 {
        assert!(cut("日本語のテキスト", longest).len() <= longest.max(3));
    }
    assert_eq!(cut("abc", 3), "abc");
}

#[test]
fn constant_that_is_not_normalised_panics() {
    assert_eq!(InsidePath::from_static("/a/b"), InsidePath::new("/a/b").unwrap());
    assert_eq!(InsidePath::from_static("/"), InsidePath::root());
    for wrong in ["", "a", "/a/", "//a", "/a/../b", "/./a", "/a\0"] {
        std::panic::catch_unwind(|| InsidePath::from_static(wrong)).unwrap_err();
    }
}
