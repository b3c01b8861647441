use super::*;
use proptest::prelude::*;

fn matches(pattern: &str, path: &str) -> bool {
    Glob::new(pattern).unwrap().matches(Path::new(path))
}

#[test]
fn a_pattern_matches_whole_components_at_any_depth() {
    assert!(matches(".env", ".env"));
    assert!(matches(".env", "a/b/.env"));
    assert!(!matches(".env", ".env/x"));
    assert!(!matches(".env", "x.env"));
    assert!(matches(".env.*", "a/.env.local"));
    assert!(!matches("*.pem", "a.pem/b"));
    assert!(matches("id_?sa", "id_rsa"));
    assert!(matches(".docker/config.json", "home/.docker/config.json"));
}

#[test]
fn a_leading_slash_anchors() {
    assert!(matches("/.bashrc", ".bashrc"));
    assert!(!matches("/.bashrc", "a/.bashrc"));
    assert!(matches("/a/**/c", "a/c"));
    assert!(matches("/a/**/c", "a/x/y/c"));
    assert!(!matches("/a/**/c", "b/a/c"));
    assert!(matches("/**", "a/b"));
}

#[test]
fn covers_reaches_below_a_matching_directory() {
    let glob = Glob::new("secrets").unwrap();
    assert!(glob.covers(Path::new("a/secrets/deep/file")));
    assert!(!glob.covers(Path::new("a/secretsx")));
}

#[test]
fn other_syntax_is_refused_by_name() {
    assert!(matches!(Glob::new(""), Err(GlobError::Empty(_))));
    assert!(matches!(Glob::new("/"), Err(GlobError::Empty(_))));
    assert!(matches!(Glob::new("a/../b"), Err(GlobError::Dots(_))));
    assert!(matches!(Glob::new("a**"), Err(GlobError::DoubleStar(_))));
    assert!(matches!(Glob::new("[ab]"), Err(GlobError::Unsupported(_, '['))));
}

#[test]
fn many_stars_do_not_explode() {
    let pattern = "*a".repeat(200);
    let path = "a".repeat(5000) + "b";
    assert!(!matches(&pattern, &path));
}

proptest! {
    #[test]
    fn a_literal_matches_itself_and_nothing_longer(name in "[a-z.]{3,12}") {
        prop_assume!(!name.trim_matches('.').is_empty());
        prop_assert!(matches(&name, &name));
        let longer = format!("{name}x");
        prop_assert!(!matches(&name, &longer));
    }

    #[test]
    fn no_pattern_panics(pattern in ".{0,20}", path in ".{0,20}") {
        if let Ok(glob) = Glob::new(&pattern) {
            let _ = glob.covers(Path::new(&path));
        }
    }
}
