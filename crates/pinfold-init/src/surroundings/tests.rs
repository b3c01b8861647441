use std::ffi::{OsStr, OsString};

use super::Surroundings;

fn surroundings() -> Surroundings {
    let moved = [("/home/agent/work", "/s/copy"), ("/home/agent", "/s/home"), ("/tmp", "/s/tmp")];
    let moved = moved.map(|(from, to)| (from.into(), to.into()));
    Surroundings { wall: None, moved: moved.to_vec() }
}

fn word(word: &str) -> OsString {
    surroundings().word(OsStr::new(word))
}

#[test]
fn paths_of_a_moved_place_are_followed() {
    assert_eq!(word("/tmp"), "/s/tmp");
    assert_eq!(word("/tmp/a/b"), "/s/tmp/a/b");
    assert_eq!(word("/home/agent/work/src"), "/s/copy/src");
    assert_eq!(word("/home/agent/bin:/usr/bin:/tmp/bin"), "/s/home/bin:/usr/bin:/s/tmp/bin");
}

#[test]
fn words_that_only_begin_like_a_moved_place_stay() {
    for same in ["/tmpfiles", "tmp", "/home/agents", "a=/tmp", "http://127.0.0.1:881", ""] {
        assert_eq!(word(same), same);
    }
}

#[test]
fn without_moved_places_no_word_changes() {
    assert_eq!(Surroundings::default().word(OsStr::new("//a/:b/")), "//a/:b/");
}
