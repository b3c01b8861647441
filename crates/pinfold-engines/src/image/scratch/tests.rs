use super::*;

#[test]
fn context_is_removed_with_its_maker() {
    let above = tempfile::tempdir().unwrap();
    let one = Scratch::make(above.path()).unwrap();
    fs::write(one.path().join("Dockerfile"), "FROM a").unwrap();
    let path = one.path().to_owned();
    drop(one);
    assert!(!path.exists());
}

#[test]
fn leftovers_of_a_killed_build_go_with_the_next_and_used_files_stay() {
    let above = tempfile::tempdir().unwrap();
    let left = above.path().join("1-0");
    fs::create_dir_all(left.join("packages")).unwrap();
    fs::write(left.join("packages/x"), "x").unwrap();
    let used = Scratch::make(above.path()).unwrap();
    assert!(!left.exists());
    let other = Scratch::make(above.path()).unwrap();
    assert!(used.path().exists() && other.path().exists() && used.path() != other.path());
}
