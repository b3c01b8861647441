use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};

use super::*;
use crate::kept::KEPT;

const SIZE: u64 = 8 << 20;
const PAGE: u64 = 4096;

struct Case {
    _directory: tempfile::TempDir,
    templates: PathBuf,
    template: Template,
    snapshot: Snapshot,
}

fn origin(words: &str, files: &[&Path]) -> Origin {
    Origin { words: vec![words.into()], files: files.iter().map(|path| path.into()).collect() }
}

/// A memory with some parts that are not empty, the last page among them, and its template.
fn case() -> Case {
    let directory = tempfile::tempdir().unwrap();
    let memory = new_memory(SIZE).unwrap();
    let file = File::from(memory.try_clone().unwrap());
    for (page, count) in [(0, 1), (3, 200), (204, 1), (SIZE / PAGE - 1, 1)] {
        let bytes: Vec<u8> = (0..count * PAGE).map(|at| (at % 251) as u8 + 1).collect();
        file.write_all_at(&bytes, page * PAGE).unwrap();
    }
    // Written, and empty all the same.
    file.write_all_at(&[0; 2 * PAGE as usize], 300 * PAGE).unwrap();
    let templates = directory.path().join("templates");
    let template =
        Template::of(&templates, &origin("words", &["/proc/self/exe".as_ref()])).unwrap();
    let snapshot = Snapshot { memory, devices: b"devices".repeat(1000) };
    template.keep(&snapshot).unwrap();
    Case { _directory: directory, templates, template, snapshot }
}

fn content(memory: &OwnedFd) -> Vec<u8> {
    let mut bytes = vec![0; SIZE as usize];
    File::from(memory.try_clone().unwrap()).read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Whether a memory can be filled from a template, and is the one that was kept then.
fn fills(case: &Case) -> bool {
    let Some(opened) = case.template.open(SIZE) else { return false };
    let memory = new_memory(SIZE).unwrap();
    let Ok(devices) = opened.fill(&memory) else { return false };
    assert_eq!(devices, case.snapshot.devices);
    assert!(content(&memory) == content(&case.snapshot.memory));
    true
}

#[test]
fn memory_and_devices_are_those_that_were_kept() {
    let case = case();
    assert!(fills(&case));
    let about = fs::metadata(case.template.path()).unwrap();
    assert_eq!(about.mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&case.templates).unwrap().mode() & 0o777, 0o700);
    // Empty pages take no room.
    assert!(about.len() < 210 * PAGE, "{}", about.len());
    assert!(case.template.open(SIZE / 2).is_none());
}

#[test]
fn every_damage_is_noticed() {
    let case = case();
    let path = case.template.path();
    let whole = fs::read(&path).unwrap();
    let length = whole.len();
    let write = |bytes: &[u8]| File::create(&path).unwrap().write_all(bytes).unwrap();
    for end in [0, 1, 39, 40, 100, 8000, length / 2, length - 1] {
        write(&whole[..end]);
        assert!(!fills(&case), "{end} bytes");
    }
    write(&[&whole[..], b"x"].concat());
    assert!(!fills(&case), "a byte too many");
    let step = length / 500;
    for at in (0..length).step_by(step).chain(0..200).chain(length - 5..length) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        write(&bytes);
        assert!(!fills(&case), "bit at {at}");
    }
    write(&whole);
    assert!(fills(&case));
}

/// The largest numbers in a header claim no memory.
#[test]
fn header_that_lies_is_refused() {
    let case = case();
    let path = case.template.path();
    let whole = fs::read(&path).unwrap();
    for field in 1..5 {
        for value in [u64::MAX, 1 << 63, 1 << 32, 0] {
            let mut bytes = whole.clone();
            bytes[field * 8..][..8].copy_from_slice(&value.to_le_bytes());
            fs::write(&path, bytes).unwrap();
            assert!(!fills(&case), "{field} {value}");
        }
    }
}

#[test]
fn file_of_somebody_else_or_of_another_machine_is_not_used() {
    let case = case();
    let path = case.template.path();
    for mode in [0o640, 0o604, 0o620, 0o602] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(!fills(&case), "{mode:o}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(fills(&case));
    let other = Template::of(&case.templates, &origin("other words", &[])).unwrap();
    assert_ne!(other.path(), path);
    fs::copy(&path, other.path()).unwrap();
    assert!(other.open(SIZE).is_none(), "another machine's");
    let moved = case.templates.join("moved");
    fs::rename(&path, &moved).unwrap();
    symlink(&moved, &path).unwrap();
    assert!(!fills(&case), "a link");
    fs::remove_file(&path).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
    assert!(!fills(&case), "a pipe");
    if rustix::process::geteuid().is_root() {
        fs::remove_file(&path).unwrap();
        fs::rename(&moved, &path).unwrap();
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        assert!(!fills(&case), "of another user");
    }
}

#[test]
fn template_that_cannot_be_kept_leaves_nothing() {
    let case = case();
    let (directory, name) = (case.templates.join("file"), "name".to_owned());
    fs::write(&directory, "").unwrap();
    let template = Template { directory, name };
    assert!(template.keep(&case.snapshot).is_err());
    // A directory in the place of the file.
    let template = Template { directory: case.templates.clone(), name: "taken".to_owned() };
    fs::create_dir_all(template.path().join("below")).unwrap();
    assert!(template.keep(&case.snapshot).is_err());
    let names = fs::read_dir(&case.templates).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with('.')));
}

#[test]
fn template_that_is_used_outlives_others() {
    let case = case();
    for number in 0..2 * KEPT {
        assert!(fills(&case));
        let name = format!("{number:016x}");
        let other = Template { directory: case.templates.clone(), name };
        other.keep(&case.snapshot).unwrap();
    }
    assert!(fills(&case));
    assert_eq!(fs::read_dir(&case.templates).unwrap().count(), KEPT);
}

#[test]
fn one_that_another_process_has_replaced_is_not_removed() {
    let case = case();
    let opened = case.template.open(SIZE).unwrap();
    case.template.keep(&case.snapshot).unwrap();
    case.template.remove(opened.id());
    assert!(fills(&case));
    case.template.remove(case.template.open(SIZE).unwrap().id());
    assert!(!fills(&case));
}

/// A want of memory costs no template.
#[test]
fn memory_that_cannot_be_written_is_no_damage() {
    let case = case();
    let memory = File::open("/dev/null").unwrap();
    let error = case.template.open(SIZE).unwrap().fill(&memory).unwrap_err();
    assert!(matches!(error, FillError::Memory(_)), "{error}");
}

#[test]
fn what_could_not_be_restored_is_tried_again_after_a_day() {
    let case = case();
    assert!(!case.template.is_given_up());
    case.template.give_up();
    assert!(case.template.is_given_up());
    let mark = File::options().write(true).open(case.template.given_up()).unwrap();
    mark.set_modified(SystemTime::now() - kept::DAY).unwrap();
    assert!(!case.template.is_given_up());
    case.template.give_up();
    assert!(case.template.is_given_up());
}

#[test]
fn other_words_and_other_files_are_another_machine() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kernel");
    fs::write(&file, "one").unwrap();
    let name = |words: &str| Template::of(directory.path(), &origin(words, &[&file])).unwrap().name;
    let first = name("-m 512");
    assert_eq!(name("-m 512"), first);
    assert_ne!(name("-m 513"), first);
    fs::write(&file, "two").unwrap();
    assert_ne!(name("-m 512"), first);
    fs::remove_file(&file).unwrap();
    assert!(Template::of(directory.path(), &origin("", &[&file])).is_err());
}

/// Who can change its size could end the file server.
#[test]
fn size_of_a_memory_is_fixed_and_nothing_is_read_where_it_stands() {
    let memory = new_memory(SIZE).unwrap();
    for size in [0, SIZE - PAGE, SIZE + PAGE] {
        assert_eq!(rustix::fs::ftruncate(&memory, size), Err(Errno::PERM));
    }
    let mut file = File::from(memory);
    assert_eq!(file.stream_position().unwrap(), SIZE);
    assert_eq!(file.read(&mut [0]).unwrap(), 0);
}

#[test]
fn refusal_is_kept_with_its_reason() {
    let case = case();
    assert_eq!(case.template.refusal(), None);
    case.template.refuse("no guest\x1b[31m\n").unwrap();
    assert_eq!(case.template.refusal().as_deref(), Some("no guest[31m"));
    // It is forgotten when nobody has asked for a day.
    let file = File::options().write(true).open(case.template.given_up()).unwrap();
    file.set_modified(SystemTime::now() - 2 * kept::DAY).unwrap();
    assert_eq!(case.template.refusal(), None);
}
