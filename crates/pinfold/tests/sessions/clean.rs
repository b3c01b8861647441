//! `pinfold clean`, and the page on what is on disk.

use std::fs;
use std::process::Output;

use pinfold_testkit::{Stage, people};

/// The page that lists every place that pinfold writes to.
const PAGE: &str = include_str!("../../../../docs/guides/uninstall.md");

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn clean(stage: &Stage, args: &[&str]) -> (String, String) {
    text(&stage.pinfold(&[&["clean"], args].concat()).output().unwrap())
}

#[test]
fn only_what_can_be_made_again_is_removed_unless_it_is_named() {
    for user in people() {
        let stage = Stage::new(user);
        let change = ["run", "--workspace", "overlay", "--apply", "never", "--", "touch", "new"];
        let (_, errors) = text(&stage.pinfold(&change).output().unwrap());
        let view = stage.state().join("review");
        let waits = || fs::read_dir(&view).unwrap().count();
        assert_eq!(waits(), 1, "{errors}");
        let log = stage.write("home/.local/state/pinfold/logs/0123456789ab", "x");

        let (shown, errors) = clean(&stage, &["--dry-run"]);
        assert!(shown.contains("removed only when named"), "{shown}{errors}");
        assert!(log.exists(), "a dry run removes nothing");
        let (_, errors) = clean(&stage, &[]);
        assert!(errors.contains("there is no terminal to ask on"), "{errors}");
        assert!(log.exists(), "nobody agreed");

        let (_, errors) = clean(&stage, &["--yes"]);
        assert!(errors.contains("removed logs"), "{errors}");
        assert!(!log.exists());
        assert_eq!(waits(), 1, "a view is not removed unless it is named");
        let (_, errors) = clean(&stage, &["--yes", "views"]);
        assert!(errors.contains("removed views"), "{errors}");
        assert_eq!(waits(), 0);
        let (audit, _) = text(&stage.pinfold(&["audit"]).output().unwrap());
        assert!(audit.contains("what=\"discard\""), "{audit}");
    }
}

#[test]
fn every_place_on_disk_is_documented() {
    let stage = Stage::new(people()[0]);
    let change = ["run", "--workspace", "overlay", "--apply", "never", "--", "touch", "new"];
    stage.pinfold(&change).output().unwrap();
    stage.pinfold(&["run", "--detach", "--", "true"]).output().unwrap();
    for place in [".local/state/pinfold", ".cache/pinfold", ".config/pinfold"] {
        let directory = stage.path("home").join(place);
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        for name in entries.map(|entry| entry.file_name().into_string().unwrap()) {
            let first = format!("`~/{place}/{name}`");
            let next = format!("`{name}`");
            assert!(PAGE.contains(&first) || PAGE.contains(&next), "{place}/{name}");
        }
    }
}
