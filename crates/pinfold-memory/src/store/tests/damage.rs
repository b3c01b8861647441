use std::io::{Seek as _, SeekFrom, Write as _};

use super::*;

#[test]
fn backup_is_a_diary_of_its_own_that_only_the_user_can_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new();
    let entry = scene.text("kept", &["t"]);
    let copy = scene.directory.path().join("copy.db");
    scene.diary.back_up(&copy).unwrap();
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    let other = Diary::open_file(&copy, None, Box::new(scene.clock.clone())).unwrap();
    assert_eq!(other.id(), scene.diary.id());
    assert_eq!(other.entry(entry.id).unwrap().content, "kept");
    assert_eq!(contents(other.search(&of("kept")).unwrap()), ["kept"]);
    // Nothing is written over.
    assert!(scene.diary.back_up(&copy).is_err());
}

#[test]
fn backup_is_the_file_that_was_named() {
    let scene = Scene::new();
    let entry = scene.text("kept", &[]);
    let here = std::env::current_dir().unwrap();
    // Tests have a process each, so that no other one is moved.
    std::env::set_current_dir(scene.directory.path()).unwrap();
    for name in [":memory:", "file:other.db?mode=rwc"] {
        scene.diary.back_up(Path::new(name)).unwrap();
        let path = scene.directory.path().join(name);
        let copy = Diary::open_file(&path, None, Box::new(scene.clock.clone())).unwrap();
        assert_eq!(copy.entry(entry.id).unwrap().content, "kept");
    }
    std::env::set_current_dir(here).unwrap();
    assert!(!scene.directory.path().join("other.db").exists());
}

#[test]
fn content_that_is_not_what_its_address_says_is_an_error() {
    let scene = Scene::new();
    let entry = scene.text("what was written", &[]);
    let other = Connection::open(scene.path()).unwrap();
    other.execute("UPDATE entry SET content = 'what was not'", []).unwrap();
    let error = scene.diary.entry(entry.id).unwrap_err();
    assert!(error.to_string().contains("is not what its address says"), "{error}");
    assert!(error.hint().unwrap().contains("pinfold memory repair"));
}

#[test]
fn entry_whose_marks_or_tags_are_no_list_is_an_error() {
    for column in ["threats", "tags"] {
        let scene = Scene::new();
        let entry = scene.text("what was written", &[]);
        let other = Connection::open(scene.path()).unwrap();
        other.execute(&format!("UPDATE entry SET {column} = '{{}}'"), []).unwrap();
        let error = scene.diary.entry(entry.id).unwrap_err();
        assert!(error.to_string().contains("no list"), "{column}: {error}");
    }
}

/// Writes over the page on which a table begins.
fn damage(path: &Path, table: &str) {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "wal_checkpoint", "truncate").unwrap_or_default();
    let query = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let page: i64 = connection.query_row(query, [table], |row| row.get(0)).unwrap();
    let size: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0)).unwrap();
    drop(connection);
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(((page - 1) * size).try_into().unwrap())).unwrap();
    file.write_all(&[0xa5; 512]).unwrap();
}

#[test]
fn torn_index_is_made_again_and_nothing_is_lost() {
    let Scene { directory, clock, diary } = Scene::new();
    let path = directory.path().join("diary.db");
    let scene = Scene { directory, clock, diary };
    let one = scene.text("first needle", &["t"]);
    let gone = scene.text("gone", &[]);
    let two = scene.add(NewEntry { supersedes: vec![one.id], ..NewEntry::new("second needle") });
    scene.diary.remove(gone.id).unwrap();
    let none = KnownSecrets::default();
    let (pack, _) = scene.diary.create_pack(&NewPack::new([one.id, two.id]), &none).unwrap();
    let Scene { directory, clock, diary } = scene;
    let id = diary.id();
    drop(diary);
    damage(&path, "entry_text_data");
    let diary = open(&directory, &clock).unwrap();
    let error = diary.search(&of("needle")).unwrap_err();
    assert!(matches!(error, MemoryError::Store(StoreError::Damaged(_))), "{error}");
    drop(diary);
    let repaired = Diary::repair_file(&path, Box::new(clock.clone())).unwrap();
    assert_eq!((repaired.entries, repaired.lost), (2, 0));
    assert!(repaired.damaged.exists());
    let diary = open(&directory, &clock).unwrap();
    assert_eq!(diary.id(), id);
    assert_eq!(diary.search(&of("needle")).unwrap().len(), 2);
    assert!(diary.entry(one.id).unwrap().is_superseded);
    assert_eq!(diary.pack(pack).unwrap().entries.len(), 2);
    let left: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(".new-"))
        .collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn rest_of_a_file_that_was_cut_off_is_saved() {
    let Scene { directory, clock, diary } = Scene::new();
    let path = directory.path().join("diary.db");
    let scene = Scene { directory, clock, diary };
    for number in 0..40 {
        scene.text(&format!("needle {number} {}", "long ".repeat(400)), &[]);
    }
    let Scene { directory, clock, diary } = scene;
    drop(diary);
    let length = fs::metadata(&path).unwrap().len();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length * 2 / 3 + 99).unwrap();
    let error = Diary::open_file(&path, None, Box::new(clock.clone())).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    assert!(error.hint().unwrap().contains("pinfold memory repair"));
    let repaired = Diary::repair_file(&path, Box::new(clock.clone())).unwrap();
    assert!(repaired.entries >= 10 && repaired.lost >= 10, "{repaired:?}");
    let diary = open(&directory, &clock).unwrap();
    assert!(!diary.search(&of("needle")).unwrap().is_empty());
}

#[test]
fn entries_are_saved_without_the_id_and_a_file_that_names_no_table_stays() {
    let scene = Scene::new();
    scene.text("needle", &[]);
    let path = scene.path();
    let Scene { directory, clock, diary } = scene;
    drop(diary);
    damage(&path, "diary");
    let repaired = Diary::repair_file(&path, Box::new(clock.clone())).unwrap();
    assert_eq!((repaired.entries, repaired.lost), (1, 0));
    open(&directory, &clock).unwrap();

    let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(100)).unwrap();
    file.write_all(&[0xa5; 60]).unwrap();
    let content = fs::read(&path).unwrap();
    let error = Diary::repair_file(&path, Box::new(clock.clone())).unwrap_err();
    assert!(error.to_string().contains("nothing of the diary"), "{error}");
    assert!(error.hint().unwrap().contains("pinfold memory backup"));
    assert_eq!(fs::read(&path).unwrap(), content);
}

#[test]
fn entry_that_was_changed_is_left_out_and_counted() {
    let scene = Scene::new();
    scene.text("good", &[]);
    scene.text("bad", &[]);
    let other = Connection::open(scene.path()).unwrap();
    other.execute("UPDATE entry SET content = 'worse' WHERE content = 'bad'", []).unwrap();
    drop(other);
    let Scene { directory, clock, diary } = scene;
    drop(diary);
    let path = directory.path().join("diary.db");
    let repaired = Diary::repair_file(&path, Box::new(clock.clone())).unwrap();
    assert_eq!((repaired.entries, repaired.lost), (1, 1));
    let diary = open(&directory, &clock).unwrap();
    assert_eq!(contents(diary.list(&Filter::default(), 10, 0).unwrap()), ["good"]);
}

/// A repair that is killed here leaves a diary.
#[test]
fn diary_is_there_while_it_is_set_aside() {
    let scene = Scene::new();
    let entry = scene.text("kept", &[]);
    let Scene { directory, clock, diary } = scene;
    drop(diary);
    let path = directory.path().join("diary.db");
    let damaged = repair::set_aside(&path, clock.now()).unwrap();
    for path in [path, damaged] {
        let diary = Diary::open_file(&path, None, Box::new(clock.clone())).unwrap();
        assert_eq!(diary.entry(entry.id).unwrap().content, "kept");
    }
}

#[test]
fn repair_ends_however_many_entries_a_file_says_there_were() {
    let scene = Scene::new();
    scene.text("good", &[]);
    let other = Connection::open(scene.path()).unwrap();
    other.execute("UPDATE sqlite_sequence SET seq = 9000000000000000000", []).unwrap();
    drop(other);
    let Scene { directory, clock, diary } = scene;
    drop(diary);
    let path = directory.path().join("diary.db");
    let repaired = Diary::repair_file(&path, Box::new(clock)).unwrap();
    assert_eq!((repaired.entries, repaired.lost), (1, 0));
}

#[test]
fn file_that_is_no_diary_is_not_repaired() {
    let scene = Scene::new();
    let path = scene.directory.path().join("other.db");
    let clock = || Box::new(scene.clock.clone());
    assert!(Diary::repair_file(&path, clock()).is_err());
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
    let before = fs::read(&path).unwrap();
    assert!(Diary::repair_file(&path, clock()).is_err());
    assert_eq!(fs::read(&path).unwrap(), before);
    fs::write(&path, "text").unwrap();
    assert!(Diary::repair_file(&path, clock()).is_err());
}

#[test]
fn full_diary_says_so_and_keeps_what_it_has() {
    let scene = Scene::new();
    scene.text("first", &[]);
    let pages: i64 = scene
        .diary
        .connection
        .lock()
        .pragma_query_value(None, "page_count", |row| row.get(0))
        .unwrap();
    scene.diary.connection.lock().pragma_update(None, "max_page_count", pages).unwrap();
    let new = NewEntry::new("word ".repeat(10_000));
    let error = scene.diary.create(&new, &KnownSecrets::default()).unwrap_err();
    assert!(matches!(error, MemoryError::Store(StoreError::Full)), "{error}");
    assert!(error.hint().is_some());
    assert_eq!(scene.found("first"), ["first"]);
    assert_eq!(scene.diary.count(&Filter::default()).unwrap(), 1);
}

#[test]
fn entries_of_a_full_diary_can_be_removed() {
    let scene = Scene::new();
    let entries: Vec<_> =
        (0..300).map(|number| scene.text(&format!("word{number}"), &[]).id).collect();
    let pages = |pragma| -> i64 {
        scene.diary.connection.lock().pragma_query_value(None, pragma, |row| row.get(0)).unwrap()
    };
    let full = pages("page_count") - pages("freelist_count");
    scene.diary.connection.lock().execute_batch("VACUUM").unwrap();
    assert!(full > 0);
    let count = pages("page_count");
    scene.diary.connection.lock().pragma_update(None, "max_page_count", count).unwrap();
    while scene.diary.create(&NewEntry::new("more"), &KnownSecrets::default()).is_ok() {}
    for id in entries {
        scene.diary.remove(id).unwrap();
    }
    assert_eq!(scene.found("word7"), [""; 0]);
}
