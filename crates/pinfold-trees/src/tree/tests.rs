use std::ffi::OsStr;
use std::fs::{self, File};

use rustix::fs::XattrFlags;

use super::{WHITEOUT, node_at};

#[test]
fn empty_files_with_a_mark_are_whiteouts_and_others_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name, content| fs::write(directory.path().join(name), content).unwrap();
    write("empty", "");
    write("marked", "");
    write("filled", "text");
    for name in ["marked", "filled"] {
        let file = File::options().write(true).open(directory.path().join(name)).unwrap();
        if rustix::fs::fsetxattr(file, WHITEOUT, b"y", XattrFlags::empty()).is_err() {
            // The file system has no such attributes, and no layer of an overlay can lie on it.
            return;
        }
    }
    let top = File::open(directory.path()).unwrap();
    let is = |name: &str| node_at(&top, OsStr::new(name)).unwrap().unwrap().is_whiteout();
    assert_eq!(["empty", "marked", "filled"].map(is), [false, true, false]);
}
