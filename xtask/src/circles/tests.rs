use std::fs;
use std::path::Path;

use super::of;

/// Writes a crate of these files, and returns the circles in it.
fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, text).unwrap();
    }
    of(directory.path()).unwrap()
}

#[test]
fn files_that_need_each_other_through_others_are_a_circle() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\nmod e;\npub use c::C;\n"),
        ("a.rs", "use crate::b::B;\npub struct A(B);\n"),
        ("b.rs", "pub struct B(crate::C);\n"),
        ("c.rs", "pub struct C;\nfn f() { super::d::g(); }\n"),
        ("d.rs", "use super::a;\npub fn g() { a::A::new() }\n"),
        ("e.rs", "use crate::a::A;\n"),
    ];
    assert_eq!(circles(&files), [["a.rs", "b.rs", "c.rs", "d.rs"].map(str::to_owned)]);
}

#[test]
fn re_exports_and_tests_make_no_circle() {
    let files = [
        ("lib.rs", "mod a;\n"),
        (
            "a.rs",
            "mod b;\nmod c;\nmod d;\npub(crate) use b::B;\nuse c::C;\nuse d::D;\nstruct A(C, D);\n",
        ),
        ("a/b.rs", "pub struct B;\n#[cfg(test)]\nmod tests { use crate::a::A; }\n"),
        ("a/c.rs", "use super::B;\npub struct C(B);\n"),
        ("a/d.rs", "use super::B;\npub struct D(B);\n#[cfg(test)]\nuse super::C;\n"),
    ];
    assert!(circles(&files).is_empty());
}
