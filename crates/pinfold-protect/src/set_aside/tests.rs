use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

struct Case {
    dir: tempfile::TempDir,
    places: Places,
}

impl Case {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        fs::create_dir(at("work")).unwrap();
        let (home, config) = (root.clone(), at("config"));
        let places = Places { home, config, state: at("state"), cache: at("cache") };
        Self { dir, places }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("work").join(name)
    }

    fn take(&self, name: &str) {
        let root = fs::File::open(self.path("")).unwrap().into();
        let aside = SetAside::of(&self.places, "s");
        aside.take_beneath(&root, Path::new(name), &self.path(name)).unwrap();
    }
}

#[test]
fn removing_everything_spares_live_sessions_and_what_stayed_in_the_workspace() {
    let case = Case::new();
    fs::create_dir_all(case.path("hooks/deep")).unwrap();
    fs::write(case.path("hooks/deep/run"), "x").unwrap();
    fs::write(case.path("run.sh"), "x").unwrap();
    case.take("hooks");
    case.take("run.sh");
    remove_all(&case.places, &|session| session == "s").unwrap();
    assert_eq!(list(&case.places).len(), 2);

    // As on another file system.
    let stays = case.path("run.sh.pinfold-quarantine");
    let aside = list(&case.places).into_iter().find(|aside| aside.path.ends_with("run.sh"));
    let Aside { file, mut record, .. } = aside.unwrap();
    fs::rename(file.with_extension(""), &stays).unwrap();
    record.stays = Some(stays.as_os_str().as_bytes().to_vec());
    write(&fs::File::create(&file).unwrap(), &record).unwrap();
    remove_all(&case.places, &|_| false).unwrap();
    let left: Vec<PathBuf> = list(&case.places).into_iter().map(|aside| aside.path).collect();
    assert_eq!(left, [case.path("run.sh")]);
    adopt(&case.places, &left[0]).unwrap();
    assert!(case.path("run.sh").exists() && !directory(&case.places).join("s").exists());
}

/// Root may put something back in a directory of another user's, who has put a link in its place.
#[test]
fn what_is_put_back_goes_through_no_link() {
    let case = Case::new();
    for (name, stays) in [("moved", false), ("stayed", true)] {
        fs::create_dir(case.path(name)).unwrap();
        let file = format!("{name}/.envrc");
        fs::write(case.path(&file), "x").unwrap();
        case.take(&file);
        let [mut aside]: [Aside; 1] = list(&case.places).try_into().unwrap();
        if stays {
            // As on another file system.
            let place = case.path("stayed/.envrc.pinfold-quarantine");
            fs::rename(aside.now(), &place).unwrap();
            aside.record.stays = Some(place.into_os_string().into_vec());
        }
        let (elsewhere, own) = (case.path("elsewhere"), case.path(name));
        fs::rename(&own, &elsewhere).unwrap();
        symlink(&elsewhere, &own).unwrap();
        assert_eq!(Errno::from_io_error(&aside.put_back().unwrap_err()), Some(Errno::LOOP));
        assert!(!elsewhere.join(".envrc").exists());
        fs::remove_file(&own).unwrap();
        fs::rename(&elsewhere, &own).unwrap();
        aside.put_back().unwrap();
        assert!(case.path(&file).exists());
    }
}

#[test]
fn other_names_of_a_file_that_is_set_aside_keep_its_permissions() {
    let case = Case::new();
    fs::write(case.path("README"), "x").unwrap();
    fs::hard_link(case.path("README"), case.path(".envrc")).unwrap();
    let mode = |name| fs::metadata(case.path(name)).unwrap().permissions().mode() & 0o777;
    let before = mode("README");
    case.take(".envrc");
    assert_eq!(mode("README"), before);
    fs::write(case.path("README"), "changed").unwrap();
    adopt(&case.places, &case.path(".envrc")).unwrap();
    assert_eq!((fs::read(case.path(".envrc")).unwrap(), mode(".envrc")), (b"x".into(), before));
}

#[test]
fn file_set_aside_leaves_the_workspace_and_is_restored_unchanged() {
    let case = Case::new();
    fs::write(case.path("run.sh"), "x").unwrap();
    fs::set_permissions(case.path("run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::create_dir_all(case.path("d/e")).unwrap();
    fs::set_permissions(case.path("d"), fs::Permissions::from_mode(0o311)).unwrap();
    case.take("run.sh");
    case.take("d");
    assert_eq!(fs::read_dir(case.path("")).unwrap().count(), 0);
    assert_eq!(list(&case.places).len(), 2);
    fs::write(case.path("run.sh"), "other").unwrap();
    let said = adopt(&case.places, &case.path("run.sh")).unwrap_err().to_string();
    assert!(said.ends_with("run.sh is there; move it away first"), "{said}");
    fs::remove_file(case.path("run.sh")).unwrap();
    assert_eq!(adopt(&case.places, &case.path("run.sh")).unwrap(), case.path("run.sh"));
    let mode = |name| fs::metadata(case.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((fs::read(case.path("run.sh")).unwrap(), mode("run.sh")), (b"x".to_vec(), 0o750));
    adopt(&case.places, &case.path("d")).unwrap();
    assert_eq!(mode("d"), 0o311);
    let said = adopt(&case.places, &case.path("d")).unwrap_err().to_string();
    assert!(said.starts_with("nothing was set aside"), "{said}");
    assert!(list(&case.places).is_empty());
}

#[test]
fn a_link_is_moved_and_what_it_leads_to_stays() {
    let case = Case::new();
    fs::write(case.path("file"), "x").unwrap();
    symlink("file", case.path("link")).unwrap();
    let before = fs::metadata(case.path("file")).unwrap().permissions();
    case.take("link");
    assert!(!case.path("link").is_symlink());
    assert_eq!(fs::metadata(case.path("file")).unwrap().permissions(), before);
    adopt(&case.places, &case.path("link")).unwrap();
    assert!(case.path("link").is_symlink());
}

#[test]
fn nothing_is_taken_through_a_link() {
    let case = Case::new();
    fs::create_dir(case.path("real")).unwrap();
    fs::write(case.path("real/file"), "x").unwrap();
    symlink("real", case.path("link")).unwrap();
    let root = fs::File::open(case.path("")).unwrap().into();
    let aside = SetAside::of(&case.places, "s");
    aside.take_beneath(&root, Path::new("link/file"), &case.path("link/file")).unwrap_err();
    assert!(case.path("real/file").exists());
}

#[test]
fn a_name_in_the_workspace_tells_what_it_is() {
    for name in [".envrc.pinfold-quarantine", "a.pinfold-quarantine-12"] {
        assert!(is_set_aside(name.as_bytes()), "{name}");
    }
    for name in ["a", ".pinfold-quarantine", "a.pinfold-quarantine-x", "a.pinfold-quarantine.b"] {
        assert!(!is_set_aside(name.as_bytes()), "{name}");
    }
}

#[test]
fn a_repository_that_stays_is_none_any_more() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("git/objects")).unwrap();
    fs::write(dir.path().join("git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let opened = fs::File::open(dir.path().join("git")).unwrap().into();
    assert!(break_repository(&opened));
    assert!(!dir.path().join("git/HEAD").exists());
}

/// Killed before a rename, what comes back is in its place with everything that it had, or can be put back again.
#[test]
fn interrupted_return_is_finished_by_the_next_one() {
    let case = Case::new();
    fs::write(case.path("run.sh"), "x").unwrap();
    fs::set_permissions(case.path("run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::create_dir(case.path("git")).unwrap();
    fs::write(case.path("git/HEAD"), "ref: refs/heads/main\n").unwrap();
    case.take("run.sh");
    case.take("git");
    let [mut git, run]: [Aside; 2] = list(&case.places).try_into().unwrap();
    assert!(git.path.ends_with("git") && run.path.ends_with("run.sh"));
    // As on another file system, and killed before it had its name.
    git.record.is_broken = true;
    git.put_back().unwrap();
    assert!(case.path("git/HEAD").exists());
    // The name is taken at the last moment: it is closed again.
    fs::write(case.path("run.sh"), "other").unwrap();
    run.put_back().unwrap_err();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&run.now()), 0);
    fs::remove_file(case.path("run.sh")).unwrap();
    run.put_back().unwrap();
    assert_eq!(mode(&case.path("run.sh")), 0o750);
}

/// The new name is written down before anything has it.
#[test]
fn what_stays_in_a_workspace_is_known_by_its_new_name_whatever_happens() {
    let case = Case::new();
    fs::write(case.path("run.sh"), "x").unwrap();
    fs::write(case.path("run.sh.pinfold-quarantine"), "of before").unwrap();
    let parent = fs::File::open(case.path("")).unwrap().into();
    let mut noted = Vec::new();
    let refused = rename_aside_to(&parent, Path::new("run.sh"), |name| {
        noted.push(name.to_owned());
        Err(Errno::NOSPC)
    });
    assert_eq!(refused, Err(Errno::NOSPC));
    assert_eq!(noted, ["run.sh.pinfold-quarantine-1"]);
    assert!(case.path("run.sh").exists());
    let name = rename_aside(&parent, Path::new("run.sh")).unwrap();
    assert_eq!(name, "run.sh.pinfold-quarantine-1");
}
