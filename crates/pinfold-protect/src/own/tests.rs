use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// Returns a home in which nothing leads through a link yet.
fn home() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let home = dir.path().canonicalize().unwrap();
    for name in [".config/pinfold/agents", ".local/state/pinfold/trust", ".cache/pinfold", "dot"] {
        fs::create_dir_all(home.join(name)).unwrap();
    }
    (dir, home)
}

fn own(home: &Path, mounts: &[Mount]) -> Own {
    let candidate = |(relative, holds)| (home.join(relative).join(OWN_NAME), holds);
    Own::of(DEFAULTS.into_iter().map(candidate), mounts.to_vec()).unwrap()
}

#[test]
fn paths_below_pinfolds_own_files_are_recognised() {
    let (_dir, home) = home();
    let own = own(&home, &[]);
    for held in [
        ".config/pinfold",
        ".config/pinfold/agents",
        ".config/pinfold/not/there",
        ".local/state/pinfold/trust",
        ".cache/pinfold/agents/x",
        // Missing, and still where settings would be read.
        ".local/share/pinfold",
    ] {
        assert!(own.holding(&home.join(held)).is_some(), "{held}");
    }
    for other in ["", ".config", ".config/pinfold-other", ".local/state", "dot"] {
        assert_eq!(own.holding(&home.join(other)), None, "{other}");
    }
}

#[test]
fn a_home_that_is_written_with_dots_is_the_same_home() {
    let (_dir, home) = home();
    let dotted = home.join("dot/../.config/../dot/..");
    let own = own(&dotted, &[]);
    let place = home.join(".config/pinfold");
    assert_eq!(own.holding(&place.join("agents")), Some(place.clone()));
    assert!(own.places().contains(&place) && !own.places().iter().any(|it| it.ends_with("..")));
    assert!(own.places().contains(&home.join(".local/share/pinfold")), "missing ones as well");
}

#[test]
fn links_lead_to_what_is_pinfolds_own() {
    let (_dir, home) = home();
    fs::write(home.join("dot/pf.toml"), "").unwrap();
    symlink("pf.toml", home.join("dot/second")).unwrap();
    symlink(home.join("dot/second"), home.join(".config/pinfold/config.toml")).unwrap();
    symlink(home.join("dot/later.json"), home.join(".config/pinfold/approvals.json")).unwrap();
    fs::create_dir(home.join("dot/agents")).unwrap();
    symlink("../../../dot/agents", home.join(".config/pinfold/agents/more")).unwrap();
    symlink(home.join("dot/loop"), home.join("dot/loop")).unwrap();
    symlink(home.join("dot/loop"), home.join(".config/pinfold/images")).unwrap();
    fs::create_dir(home.join("dot/extension")).unwrap();
    fs::create_dir(home.join(".config/pinfold/extensions")).unwrap();
    symlink(home.join("dot/extension"), home.join(".config/pinfold/extensions/x")).unwrap();
    let own = own(&home, &[]);
    for held in ["dot/pf.toml", "dot/later.json", "dot/agents", "dot/agents/a.toml"] {
        assert!(own.holding(&home.join(held)).is_some(), "{held}");
    }
    assert!(own.links().contains(&home.join("dot/second")));
    assert_eq!(own.holding(&home.join("dot")), None);
    assert_eq!(own.holding(&home.join("dot/extension")), None, "it is only put into images");
}

#[test]
fn a_second_name_of_a_file_of_pinfolds_is_known_by_its_inode() {
    let (_dir, home) = home();
    fs::write(home.join(".config/pinfold/config.toml"), "").unwrap();
    assert!(!own(&home, &[]).has_linked());
    fs::hard_link(home.join(".config/pinfold/config.toml"), home.join("dot/notes.txt")).unwrap();
    fs::write(home.join(".local/state/pinfold/trust/x.json"), "").unwrap();
    fs::hard_link(home.join(".local/state/pinfold/trust/x.json"), home.join("dot/x")).unwrap();
    fs::write(home.join("dot/other"), "").unwrap();
    let own = own(&home, &[]);
    for name in ["dot/notes.txt", "dot/x"] {
        let path = home.join(name);
        assert!(own.may_hold(fs::metadata(&path).unwrap().ino()) && own.has_several(&path));
        assert!(own.holding(&path).is_some(), "{name}");
    }
    assert!(!own.has_several(&home.join("dot/other")));
}

#[test]
fn second_mount_of_a_directory_is_recognised_by_its_place_in_the_file_system() {
    let (_dir, home) = home();
    let (root, part) = (home.join(".config"), home.join(".cache/pinfold/deep"));
    for path in [home.join("dot/config"), home.join("dot/part"), part.clone()] {
        fs::create_dir_all(path).unwrap();
    }
    let mount = |root: &Path, point: PathBuf| Mount::of("8:1", root, point);
    let mounts = [
        mount(Path::new("/"), PathBuf::from("/")),
        mount(&root, home.join("dot/config")),
        mount(&part, home.join("dot/part")),
        Mount::of("8:2", &root, home.join("dot")),
    ];
    let own = own(&home, &mounts);
    assert!(own.holding(&home.join("dot/part/x")).is_some(), "a part of the cache");
    // Nothing is really mounted in this test, so the directory there is another one.
    assert_eq!(own.holding(&home.join("dot/config/pinfold")), None);
    let place = own.place_of(&home.join("dot/config/gh")).unwrap();
    assert_eq!(place, home.join(".config/gh"));
    let aliases = mount_points::aliases(&mounts, &home.join(".config/pinfold"));
    assert_eq!(aliases, [Alias::Whole(home.join("dot/config/pinfold"))]);
}
