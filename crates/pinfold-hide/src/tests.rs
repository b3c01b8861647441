use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use tempfile::TempDir;

use super::*;

struct Case {
    directory: TempDir,
    /// Where the state lies, if not below the former.
    elsewhere: Option<TempDir>,
}

impl Case {
    fn new() -> Self {
        let case = Self { directory: tempfile::tempdir().unwrap(), elsewhere: None };
        fs::create_dir(case.directory.path().join("w")).unwrap();
        fs::write(case.file(), "secret").unwrap();
        case
    }

    /// Returns the state on this file system, and on another one if there is one.
    fn all() -> Vec<Self> {
        let mut all = vec![Self::new()];
        if let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") {
            let case = Self { elsewhere: Some(elsewhere), ..Self::new() };
            let device = |path: &Path| fs::metadata(path).unwrap().dev();
            let here = device(case.directory.path());
            if case.elsewhere.as_ref().is_some_and(|it| device(it.path()) != here) {
                all.push(case);
            }
        }
        all
    }

    fn file(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("w/.env")
    }

    fn staged(&self, kind: &str, entry: &Entry) -> PathBuf {
        let content = entry.content();
        let id = content.ancestors().nth(2).unwrap().file_name().unwrap().to_str().unwrap();
        self.file().with_file_name(format!(".env.pinfold-{kind}-{id}"))
    }

    fn places(&self) -> Places {
        let base =
            self.elsewhere.as_ref().unwrap_or(&self.directory).path().canonicalize().unwrap();
        let at = |name: &str| base.join(name);
        Places { home: at("home"), config: at("config"), state: at("state"), cache: at("cache") }
    }

    fn hide(&self) -> Hidden {
        hide(&self.places(), &self.file(), Tracking::Refuse).unwrap()
    }

    fn entry(&self) -> Entry {
        Entry::create(&self.places(), &self.file()).unwrap()
    }

    fn conditions(&self) -> Vec<Condition> {
        list(&self.places()).unwrap().iter().map(|it| it.condition).collect()
    }

    /// The workspace has the plain file and nothing else, and nothing is hidden.
    fn assert_plain(&self, content: &str) {
        assert_eq!(self.conditions(), []);
        assert!(!fs::symlink_metadata(self.file()).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(self.file()).unwrap(), content);
        assert_eq!(fs::read_dir(self.file().parent().unwrap()).unwrap().count(), 1);
    }

    fn assert_hidden(&self, content: &str) {
        assert_eq!(self.conditions(), [Condition::Hidden]);
        assert!(fs::symlink_metadata(self.file()).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(self.file()).unwrap(), content);
        assert_eq!(fs::read_dir(self.file().parent().unwrap()).unwrap().count(), 1);
    }
}

#[test]
fn a_file_comes_back_as_it_went() {
    for case in Case::all() {
        fs::set_permissions(case.file(), fs::Permissions::from_mode(0o640)).unwrap();
        let file = fs::File::open(case.file()).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        let has_attributes = rustix::fs::fsetxattr(&file, "user.x", b"y", flags).is_ok();
        let hidden = case.hide();
        assert_eq!((&hidden.path, hidden.condition), (&case.file(), Condition::Hidden));
        case.assert_hidden("secret");
        let owner = fs::metadata(hidden.content.ancestors().nth(2).unwrap()).unwrap();
        assert_eq!(owner.mode() & 0o777, 0o700);
        // A save through the link.
        fs::write(case.file(), "new").unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(undo(&case.places(), &case.file()).unwrap(), case.file());
        case.assert_plain("new");
        let found = fs::metadata(case.file()).unwrap();
        assert_eq!((found.mode() & 0o7777, found.nlink()), (0o640, 1));
        let mut value = [0; 8];
        let read = rustix::fs::getxattr(case.file(), "user.x", &mut value);
        assert!(!has_attributes || read == Ok(1), "{read:?}");
    }
}

#[test]
fn file_that_is_not_a_plain_file_of_the_users_is_refused() {
    let case = Case::new();
    let directory = case.file().parent().unwrap().to_owned();
    let at = |name: &str| directory.join(name);
    symlink(case.file(), at("link")).unwrap();
    fs::create_dir_all(at("d/.git")).unwrap();
    fs::write(at("d/.git/config"), "").unwrap();
    fs::write(at("d/x"), "").unwrap();
    symlink("d", at("e")).unwrap();
    fs::create_dir_all(at("bare/objects")).unwrap();
    fs::create_dir(at("bare/refs")).unwrap();
    fs::write(at("bare/HEAD"), "").unwrap();
    fs::write(at("one"), "").unwrap();
    fs::hard_link(at("one"), at("two")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), fifo, Mode::RWXU, 0).unwrap();
    for (name, expected) in [
        ("link", "is a symbolic link"),
        ("d", "is a directory"),
        ("d/.git/config", "is in a git directory"),
        ("bare/HEAD", "is in a git directory"),
        ("e/x", "is reached through a symbolic link"),
        ("one", "has several names"),
        ("fifo", "is not a regular file"),
        ("missing", "No such file"),
    ] {
        let error = hide(&case.places(), &at(name), Tracking::Refuse).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
    let own = case.places().state.join("own");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, "").unwrap();
    let error = hide(&case.places(), &own, Tracking::Allow).unwrap_err().to_string();
    assert!(error.contains("belongs to pinfold"), "{error}");
    assert_eq!(case.conditions(), []);
}

#[test]
fn a_move_that_was_killed_before_the_link_was_there_leaves_the_file() {
    for case in Case::all() {
        let entry = case.entry();
        symlink(entry.content(), entry.content()).unwrap();
        case.assert_plain("secret");
        // A copy that is not whole, and one that is.
        let entry = case.entry();
        fs::write(entry.content().ancestors().nth(2).unwrap().join("copy"), "sec").unwrap();
        case.assert_plain("secret");
        let entry = case.entry();
        fs::copy(case.file(), entry.content()).unwrap();
        symlink(entry.content(), case.staged("hide", &entry)).unwrap();
        case.assert_plain("secret");
    }
}

#[test]
fn a_move_that_was_killed_after_the_link_was_there_is_finished() {
    for case in Case::all() {
        let entry = case.entry();
        fs::copy(case.file(), entry.content()).unwrap();
        fs::rename(case.file(), case.staged("hide", &entry)).unwrap();
        symlink(entry.content(), case.file()).unwrap();
        case.assert_hidden("secret");
        undo(&case.places(), &case.file()).unwrap();
        case.assert_plain("secret");
    }
}

#[test]
fn a_file_that_changed_while_it_was_copied_is_not_lost() {
    let case = Case::new();
    let entry = case.entry();
    fs::write(entry.content(), "secret").unwrap();
    fs::remove_file(case.file()).unwrap();
    fs::write(case.staged("hide", &entry), "newer").unwrap();
    symlink(entry.content(), case.file()).unwrap();
    case.assert_plain("newer");
}

#[test]
fn a_move_back_that_was_killed_leaves_one_whole_file() {
    for case in Case::all() {
        case.hide();
        let entry = || entries(&case.places()).pop().unwrap();
        fs::write(case.staged("show", &entry()), "sec").unwrap();
        case.assert_hidden("secret");
        // The copy is in its place, and the link next to it.
        let known = entry();
        let linked = known.content().ancestors().nth(2).unwrap().join("linked");
        fs::remove_file(linked).unwrap();
        fs::rename(case.file(), case.staged("show", &known)).unwrap();
        fs::copy(known.content(), case.file()).unwrap();
        case.assert_plain("secret");
    }
}

#[test]
fn a_link_that_an_editor_replaced_is_named_and_nothing_is_lost() {
    for case in Case::all() {
        let first = case.hide();
        fs::remove_file(case.file()).unwrap();
        assert_eq!(case.conditions(), [Condition::Gone]);
        fs::write(case.file(), "saved").unwrap();
        let root = case.file().parent().unwrap().to_owned();
        assert_eq!(replaced(&case.places(), &root), [case.file()]);
        let error = undo(&case.places(), &case.file()).unwrap_err().to_string();
        assert!(error.contains("is another file now"), "{error}");
        case.hide();
        assert_eq!(replaced(&case.places(), &root), [] as [PathBuf; 0]);
        let mut conditions = case.conditions();
        conditions.sort_by_key(|it| *it != Condition::Hidden);
        assert_eq!(conditions, [Condition::Hidden, Condition::Older]);
        undo(&case.places(), &case.file()).unwrap();
        assert_eq!(case.conditions(), [Condition::Older]);
        assert_eq!(replaced(&case.places(), &root), [] as [PathBuf; 0]);
        assert_eq!(fs::read_to_string(case.file()).unwrap(), "saved");
        assert_eq!(fs::read_to_string(first.content).unwrap(), "secret");
    }
}

#[test]
fn a_missing_link_is_no_obstacle_to_putting_the_file_back() {
    for case in Case::all() {
        case.hide();
        fs::remove_file(case.file()).unwrap();
        undo(&case.places(), &case.file()).unwrap();
        case.assert_plain("secret");
    }
}
