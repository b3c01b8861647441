use super::*;

/// Returns what settings of a user's protect in a workspace in their home, and what they have judged at the end.
fn protected(settings: &str) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().canonicalize().unwrap();
    let top = home.join("dot");
    for made in ["hooks", "tmpl", "tools"] {
        fs::create_dir_all(top.join(made)).unwrap();
    }
    for made in ["inc", "tools/there"] {
        fs::write(top.join(made), "").unwrap();
    }
    let file = home.join(".gitconfig");
    fs::write(&file, settings).unwrap();
    let mut protect = Protect::new(vec![(top.clone(), true)]);
    let tops = [top.clone()];
    let scope = Scope { git: &top.join(".git"), tops: &tops, home: &home };
    scope.protect_named_by(&file, &mut protect);
    let below = |path: &Path| path.strip_prefix(&top).unwrap().to_owned();
    let mut now: Vec<PathBuf> = protect.restrictions().map(|(path, ..)| below(path)).collect();
    now.dedup();
    (now, protect.expected.iter().map(|(path, _)| below(path)).collect())
}

#[test]
fn what_lies_in_the_home_is_found_by_its_short_name() {
    for (settings, path) in [
        ("[include]\npath = ~/dot/inc\n", "inc"),
        ("[includeIf \"gitdir:~/x/\"]\npath = dot/new\n", "new"),
        ("[core]\nhooksPath = ~/dot/hooks\n", "hooks"),
        ("[core]\nhooksPath = hooks\n", "hooks"),
        ("[init]\ntemplateDir = ~/dot/tmpl\n", "tmpl"),
        ("[init]\ntemplateDir = ~/dot/later\n", "later"),
        ("[core]\nfsmonitor = ~/dot/tools/there\n", "tools/there"),
        ("[credential]\nhelper = \"!$HOME/dot/tools/there -x\"\n", "tools/there"),
        ("[credential]\nhelper = \"!\\\"${HOME}/dot/tools/there\\\"\"\n", "tools/there"),
    ] {
        assert_eq!(protected(settings), (vec![path.into()], Vec::new()), "{settings}");
    }
}

#[test]
fn program_that_is_missing_is_expected_and_other_words_are_not() {
    for settings in [
        "[filter \"x\"]\nclean = tools/later --name origin/main %f\n",
        "[core]\nfsmonitor = ~/dot/tools/later\n",
        "[credential]\nhelper = \"!$HOME/dot/tools/later\"\n",
        "[alias]\nx = !~/dot/tools/later\n",
        "[alias]\nx = \"!f() { $HOME/dot/tools/later; }; f\"\n",
        "[alias]\nx = !./tools/later\n",
        "[core]\nsshCommand = ssh -F ~/dot/tools/later\n",
    ] {
        assert_eq!(protected(settings), (Vec::new(), vec!["tools/later".into()]), "{settings}");
    }
    for settings in
        ["[alias]\nl = !origin/main\n", "[core]\npager = less -R /x\n", "[gpg]\nprogram = gpg2\n"]
    {
        assert_eq!(protected(settings), Default::default(), "{settings}");
    }
}

#[test]
fn directory_that_a_path_leaves_by_dots_becomes_no_link() {
    let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
    for (settings, now, expected) in [
        ("[include]\npath = dot/new/../inc\n", &["new", "inc"][..], &[][..]),
        ("[include]\npath = ~/dot/tools/../inc\n", &["inc"], &["tools"]),
        ("[core]\nhooksPath = new/../hooks\n", &["new", "hooks"], &[]),
        ("[core]\nfsmonitor = ~/dot/new/../tools/there\n", &["tools/there"], &["new"]),
        ("[core]\nfsmonitor = ~/dot/tmpl/../tools/there\n", &["tools/there"], &["tmpl"]),
    ] {
        assert_eq!(protected(settings), (paths(now), paths(expected)), "{settings}");
    }
}
