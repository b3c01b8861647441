use std::time::Duration;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn titles(diary: &Diary) -> Vec<String> {
    let all = diary.list(&Filter::default(), 100, 0).unwrap();
    all.into_iter().filter_map(|entry| entry.title).collect()
}

fn titled(title: &str) -> NewEntry {
    NewEntry { title: Some(title.to_owned()), ..NewEntry::new(format!("text of {title}")) }
}

#[test]
fn entries_go_when_they_are_too_old_and_not_in_a_pack_that_stays() {
    let scene = Scene::new();
    let kept = scene.add(titled("in a pack"));
    scene.add(titled("old"));
    let pack = NewPack { pinned: true, ..NewPack::new([kept.id]) };
    scene.diary.create_pack(&pack, &KnownSecrets::default()).unwrap();
    scene.clock.forward(DAY * 10);
    scene.add(titled("new"));
    let limits = |days| Limits { keep: Some(DAY * days), ..Limits::default() };
    let reopened =
        |days| open(&scene.directory, &scene.clock).unwrap().limited(limits(days)).unwrap();
    assert_eq!(titles(&reopened(11)).len(), 3);
    let diary = reopened(9);
    assert_eq!(titles(&diary), ["new", "in a pack"]);
    let search = Search { query: Some("old".to_owned()), limit: 5, ..Search::default() };
    assert!(diary.search(&search).unwrap().is_empty());
}

#[test]
fn clock_that_jumps_makes_no_diary_old() {
    let scene = Scene::new();
    scene.add(titled("one"));
    scene.clock.forward(DAY * 3650);
    let limits = Limits { keep: Some(DAY), ..Limits::default() };
    let diary = open(&scene.directory, &scene.clock).unwrap().limited(limits).unwrap();
    assert_eq!(titles(&diary), ["one"]);
}

#[test]
fn entry_of_the_future_does_not_make_others_old() {
    let scene = Scene::new();
    let future = Timestamp::from_millis(scene.clock.now().millis() * 9);
    scene.add(titled("one"));
    let imported = NewEntry { created_at: Some(future), ..titled("imported") };
    scene.diary.import(&[imported], &KnownSecrets::default()).unwrap();
    scene.clock.forward(DAY * 3650);
    for days in [1, 100_000_000, u32::MAX] {
        let limits = Limits { keep: Some(DAY * days), ..Limits::default() };
        let diary = open(&scene.directory, &scene.clock).unwrap().limited(limits).unwrap();
        assert_eq!(titles(&diary), ["imported", "one"]);
    }
}

#[test]
fn diary_takes_no_more_than_its_user_says_and_entries_can_still_be_removed() {
    let scene = Scene::new();
    let limits = Limits { size: Some(1 << 20), ..Limits::default() };
    let diary = open(&scene.directory, &scene.clock).unwrap().limited(limits).unwrap();
    let long = |number: u32| NewEntry::new(format!("{number} {}", "word ".repeat(10_000)));
    let none = KnownSecrets::default();
    let added: Vec<_> =
        (0..100).map_while(|number| diary.create(&long(number), &none).ok()).collect();
    assert!((5..40).contains(&added.len()), "{}", added.len());
    let refused = diary.create(&long(0), &none).unwrap_err().to_string();
    assert!(refused.contains("full"), "{refused}");
    for entry in &added {
        diary.remove(entry.id).unwrap();
    }
    diary.create(&long(0), &none).unwrap();
    assert!(std::fs::metadata(scene.path()).unwrap().len() <= (1 << 20) + (64 << 20));
}
