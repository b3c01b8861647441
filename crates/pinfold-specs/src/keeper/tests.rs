use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::Keeper;
use crate::file::FileHome;

const SPEC: &str = "---\nbranch: b\n---\n# Title\n\n### Step 1: One\n";
const DONE: &str = "---\nbranch: b\n---\n# Title\n\n### Step 1: One [done]\n";

/// Returns what the file holds and what was said after a sandbox has returned something and a user wrote something.
fn after(
    returned: Result<&str, &str>,
    edited: Option<&str>,
    notes: &[&str],
) -> (String, Vec<String>, bool, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spec.md");
    fs::write(&file, SPEC).unwrap();
    let mut home = FileHome::open(&file).unwrap();
    let mut keeper = Keeper::new(&mut home, dir.path()).unwrap();
    if let Some(text) = edited {
        fs::write(&file, text).unwrap();
    }
    let notes: Vec<String> = notes.iter().map(|note| (*note).to_owned()).collect();
    let taken = keeper.take_back(returned, &notes, 1).unwrap();
    let left = fs::read_to_string(&file).unwrap();
    assert_eq!(keeper.known().text(), left);
    (left, taken.notices, taken.conflict.is_some(), dir)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn body_is_taken_and_front_matter_is_not() {
    let (left, notices, conflict, dir) = after(Ok(DONE), None, &[]);
    assert_eq!((left.as_str(), notices.len(), conflict), (DONE, 0, false));
    assert_eq!(names(dir.path()), ["spec.md"]);
    let lies = DONE.replace("branch: b", "branch: main\nverify: []");
    let (left, notices, ..) = after(Ok(&lies), None, &[]);
    assert_eq!((left.as_str(), notices.len()), (DONE, 1));
    let (left, notices, ..) = after(Ok("# Title\n\n### Step 1: One [done]\n"), None, &[]);
    assert_eq!((left.as_str(), notices.len()), (DONE, 1));
}

#[test]
fn what_is_no_specification_changes_nothing() {
    let long = format!("{SPEC}{}", "x".repeat(2 << 20));
    for returned in [
        Err("is missing"),
        Ok(""),
        Ok("---\nno end\n"),
        Ok("---\n---\n---\nverify: []\n---\nx"),
        Ok("---\nbranch: b\n---\na\u{1b}]0;title\u{7}b"),
        Ok(long.as_str()),
    ] {
        let (left, notices, conflict, _dir) = after(returned, None, &[]);
        assert_eq!((left.as_str(), conflict), (SPEC, false));
        assert!(notices[0].contains("is ignored: it "), "{notices:?}");
    }
}

#[test]
fn later_edit_of_a_user_is_kept_whatever_the_sandbox_did() {
    let edited = SPEC.replace("One", "One, but better");
    let (left, _, conflict, _dir) = after(Ok(SPEC), Some(&edited), &[]);
    assert_eq!((left, conflict), (edited.clone(), false));
    let (left, _, conflict, dir) = after(Ok(DONE), Some(&edited), &[]);
    assert_eq!((left, conflict), (edited, true));
    assert_eq!(fs::read_to_string(dir.path().join("conflict-1.md")).unwrap(), DONE);
    let front = SPEC.replace("branch: b", "branch: b\nmodel: m");
    let (left, _, conflict, _dir) = after(Ok(DONE), Some(&front), &[]);
    assert_eq!((left, conflict), (DONE.replace("branch: b", "branch: b\nmodel: m"), false));
}

#[test]
fn notes_are_added_below_one_heading() {
    let (left, ..) = after(Ok(DONE), None, &["first"]);
    assert_eq!(left, format!("{DONE}\n## Notes\n\n- first\n"));
    let (again, ..) = after(Ok(&left), None, &["second"]);
    assert_eq!(again, format!("{left}- second\n"));
    let (more, ..) = after(Ok(&format!("{left}\n## More\n")), None, &["third"]);
    assert!(more.ends_with("## More\n\n## Notes\n\n- third\n"), "{more}");
}
