use std::cell::Cell;
use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn held_by(tree: &Path) -> u64 {
    held(tree, &|_| true).unwrap()
}

#[test]
fn a_tree_holds_what_its_files_take_once_and_nothing_that_links_lead_to() {
    let world = tempfile::tempdir().unwrap();
    let (tree, outside) = (world.path().join("tree"), world.path().join("outside"));
    for dir in [&tree, &outside] {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join("file"), vec![1; 3 << 20]).unwrap();
    }
    let one = held_by(&tree);
    assert!(((3 << 20)..(4 << 20)).contains(&one), "{one}");
    symlink(&outside, tree.join("link")).unwrap();
    fs::hard_link(tree.join("file"), tree.join("same")).unwrap();
    fs::File::create(tree.join("sparse")).unwrap().set_len(1 << 30).unwrap();
    let more = held_by(&tree);
    assert!(more < (4 << 20), "{more}");
    for index in 0..100 {
        fs::write(tree.join(index.to_string()), "").unwrap();
    }
    assert!(held_by(&tree) >= more + 100 * SMALLEST, "empty files are not nothing");
}

#[test]
fn scan_ends_when_asked_to_and_at_a_depth() {
    let world = tempfile::tempdir().unwrap();
    for index in 0..100 {
        fs::write(world.path().join(index.to_string()), "x").unwrap();
    }
    let asked = Cell::new(0);
    let goes_on = |_| {
        asked.set(asked.get() + 1);
        asked.get() < 10
    };
    held(world.path(), &goes_on).unwrap();
    assert_eq!(asked.get(), 10);
    let mut deep = world.path().join("deep");
    for _ in 0..DEEPEST + 20 {
        fs::create_dir(&deep).unwrap();
        deep.push("d");
    }
    let names = Cell::new(0);
    held(world.path(), &|_| {
        names.set(names.get() + 1);
        true
    })
    .unwrap();
    assert_eq!(names.get(), 100 + DEEPEST + 1);
}

#[test]
fn a_gibibyte_or_a_twentieth_of_a_disk_is_left() {
    let disk =
        |size: u64, free: u64| Disk { used: size - free, free, size, nodes: 0, free_nodes: 0 };
    assert!(!disk(500 << 30, 2 << 30).is_short());
    assert!(disk(500 << 30, 1 << 29).is_short());
    assert!(disk(500 << 30, 3 << 30).is_short_for(5 << 29));
    assert!(!disk(8 << 20, 1 << 20).is_short());
    assert!(disk(8 << 20, 1 << 18).is_short());
    assert!(disk(0, 0).is_short());
    let few = Disk { nodes: 1 << 24, free_nodes: 1000, ..disk(500 << 30, 100 << 30) };
    assert!(few.is_short());
}
