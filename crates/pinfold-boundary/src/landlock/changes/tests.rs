use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use pinfold_wire::MaskKind;

use super::collect;
use crate::landlock::copy::tests::Site;

/// What lies in the layer: a file's content, `gone` for a whiteout, nothing for a directory.
fn upper(site: &Site) -> BTreeMap<PathBuf, String> {
    fn visit(top: &Path, path: &Path, all: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let shown = if kind.is_char_device() {
                "gone".to_owned()
            } else if kind.is_dir() {
                visit(top, &path, all);
                String::new()
            } else {
                fs::read_to_string(&path).unwrap()
            };
            all.insert(path.strip_prefix(top).unwrap().to_owned(), shown);
        }
    }
    let top = site.view.layers.join("upper");
    let mut all = BTreeMap::new();
    visit(&top, &top, &mut all);
    all
}

fn changes(
    site: &Site,
    masks: &[(&str, MaskKind)],
    change: impl FnOnce(),
) -> BTreeMap<PathBuf, String> {
    let copied = site.copy(masks);
    change();
    collect(Some((&site.view, &copied))).unwrap();
    upper(site)
}

fn layer(entries: &[(&str, &str)]) -> BTreeMap<PathBuf, String> {
    entries.iter().map(|(path, shown)| ((*path).into(), (*shown).to_owned())).collect()
}

#[test]
fn nothing_changed_is_nothing_collected() {
    let site = Site::new();
    site.write("a/b", "1");
    site.write(".env", "hunter2");
    let masks = [(".env", MaskKind::Hide)];
    assert_eq!(
        changes(&site, &masks, || fs::remove_file(site.inside(".env")).unwrap()),
        layer(&[])
    );
}

#[test]
fn new_changed_moved_and_removed_files_are_collected() {
    let site = Site::new();
    for name in ["same", "edited", "moved", "removed", "d/one", "d/two", "e/three"] {
        site.write(name, name);
    }
    let found = changes(&site, &[], || {
        fs::write(site.inside("edited"), "Edited").unwrap();
        fs::rename(site.inside("moved"), site.inside("here")).unwrap();
        fs::remove_file(site.inside("removed")).unwrap();
        fs::remove_file(site.inside("d/one")).unwrap();
        fs::rename(site.inside("e"), site.inside("f")).unwrap();
        fs::create_dir_all(site.inside("new/deep")).unwrap();
        fs::write(site.inside("new/deep/file"), "new").unwrap();
    });
    let expected = [
        ("edited", "Edited"),
        ("here", "moved"),
        ("moved", "gone"),
        ("removed", "gone"),
        ("d", ""),
        ("d/one", "gone"),
        ("e", "gone"),
        ("f", ""),
        ("f/three", "e/three"),
        ("new", ""),
        ("new/deep", ""),
        ("new/deep/file", "new"),
    ];
    assert_eq!(found, layer(&expected));
}

#[test]
fn a_change_is_seen_whatever_time_the_file_is_given() {
    let site = Site::new();
    site.write("file", "one");
    let found = changes(&site, &[], || {
        let path = site.inside("file");
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "two").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    });
    assert_eq!(found, layer(&[("file", "two")]));
}

#[test]
fn what_the_host_does_is_not_the_sessions() {
    let site = Site::new();
    site.write("theirs", "1");
    site.write("removed", "1");
    site.write("d/file", "1");
    let found = changes(&site, &[], || {
        site.write("theirs", "2");
        site.write("added", "2");
        fs::remove_file(site.host("removed")).unwrap();
        fs::remove_dir_all(site.host("d")).unwrap();
        fs::remove_file(site.inside("removed")).unwrap();
    });
    assert_eq!(found, layer(&[]));
}

#[test]
fn a_directory_in_the_place_of_a_file_and_a_closed_one_are_collected() {
    let site = Site::new();
    site.write("file", "1");
    site.write("closed/file", "1");
    let found = changes(&site, &[], || {
        fs::remove_file(site.inside("file")).unwrap();
        fs::create_dir(site.inside("file")).unwrap();
        fs::write(site.inside("closed/file"), "2").unwrap();
        fs::set_permissions(site.inside("closed"), fs::Permissions::from_mode(0o0)).unwrap();
    });
    assert_eq!(found, layer(&[("file", ""), ("closed", ""), ("closed/file", "2")]));
}
