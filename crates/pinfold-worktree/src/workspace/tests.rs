use super::*;

#[test]
fn trees_around_a_directory_do_not_depend_on_what_a_session_puts_there() {
    let scene = tempfile::tempdir().unwrap();
    let home = scene.path().canonicalize().unwrap();
    for directory in ["project/.git", "project/nested/.git", "project/odd", "plain/deep"] {
        fs::create_dir_all(home.join(directory)).unwrap();
    }
    fs::write(home.join("project/odd/.git"), "gitdir: /nowhere\n").unwrap();
    let trees = |directory: &str| {
        let trees = trees_around(&home.join(directory), &home);
        let below = |tree: &PathBuf| tree.strip_prefix(&home).unwrap().display().to_string();
        trees.iter().map(below).collect::<Vec<_>>()
    };
    assert_eq!(trees("project"), ["project"]);
    assert_eq!(trees("project/nested"), ["project/nested", "project"]);
    assert_eq!(trees("project/odd"), ["project/odd", "project"]);
    assert_eq!(trees("project/gone"), ["project"]);
    assert_eq!(trees("plain/deep"), ["plain/deep"], "the directory itself");
    assert_eq!(trees(""), Vec::<String>::new(), "a home has the user's own programs");
}

#[test]
fn main_worktree_is_around_a_linked_one() {
    let scene = tempfile::tempdir().unwrap();
    let home = scene.path().canonicalize().unwrap();
    let admin = home.join("main/.git/worktrees/tree");
    fs::create_dir_all(&admin).unwrap();
    fs::create_dir(home.join("tree")).unwrap();
    fs::write(home.join("tree/.git"), format!("gitdir: {}\n", admin.display())).unwrap();
    fs::write(admin.join("gitdir"), format!("{}\n", home.join("tree/.git").display())).unwrap();
    fs::write(admin.join("commondir"), "../..\n").unwrap();
    let trees = trees_around(&home.join("tree"), &home);
    assert_eq!(trees, [home.join("tree"), home.join("main")]);
}
