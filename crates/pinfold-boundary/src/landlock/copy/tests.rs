use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use pinfold_wire::MaskKind;
use tempfile::TempDir;

use super::{COPY, Copied, copy};
use crate::landlock::layout::{Layout, View};

/// A workspace with layers for a view of it.
pub(in crate::landlock) struct Site {
    directory: TempDir,
    pub(in crate::landlock) view: View,
}

impl Site {
    pub(in crate::landlock) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let layers = base.join("layers");
        for name in ["ws", "layers", "layers/upper", "layers/work"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        let copy = layers.join(COPY).join("ws");
        Self { directory, view: View { workspace: base.join("ws"), layers, copy } }
    }

    pub(in crate::landlock) fn host(&self, name: &str) -> PathBuf {
        self.view.workspace.join(name)
    }

    pub(in crate::landlock) fn inside(&self, name: &str) -> PathBuf {
        self.view.copy.join(name)
    }

    pub(in crate::landlock) fn write(&self, name: &str, content: &str) {
        let path = self.host(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(in crate::landlock) fn copy(&self, masks: &[(&str, MaskKind)]) -> Copied {
        let masks: HashMap<PathBuf, MaskKind> =
            masks.iter().map(|(path, kind)| ((*path).into(), kind.clone())).collect();
        let moved = vec![("/run/pinfold".into(), self.directory.path().join("own"))];
        let layout = Layout { moved, ..Layout::default() };
        copy(&self.view, &masks, &layout).unwrap()
    }
}

#[test]
fn copy_has_contents_modes_times_and_links() {
    let site = Site::new();
    site.write("bin/tool", "#!/bin/sh\n");
    fs::set_permissions(site.host("bin/tool"), fs::Permissions::from_mode(0o4755)).unwrap();
    symlink("../ws/bin", site.host("link")).unwrap();
    let copied = site.copy(&[]);
    assert_eq!(fs::read(site.inside("bin/tool")).unwrap(), b"#!/bin/sh\n");
    let (old, new) = (
        fs::metadata(site.host("bin/tool")).unwrap(),
        fs::metadata(site.inside("bin/tool")).unwrap(),
    );
    assert_eq!(new.mode() & 0o7777, 0o755, "no file of a copy has set-user-ID bits");
    assert_eq!((new.mtime(), new.mtime_nsec()), (old.mtime(), old.mtime_nsec()));
    assert_eq!(fs::read_link(site.inside("link")).unwrap(), Path::new("../ws/bin"));
    assert_eq!(copied.entries.get(Path::new("bin/tool")), Some(&Some(new.ino())));
    assert_eq!(copied.entries.get(Path::new("bin")), Some(&None));
}

#[test]
fn what_is_masked_is_not_copied() {
    let site = Site::new();
    site.write(".env", "TOKEN=hunter2");
    site.write("keys/private", "hunter2");
    site.write("shown", "hunter2");
    site.write(".git/config", "hunter2");
    site.write("closed", "hunter2");
    fs::create_dir(site.directory.path().join("own")).unwrap();
    fs::write(site.directory.path().join("own/stand-in"), "TOKEN=placeholder").unwrap();
    let with = |name: &str| format!("/run/pinfold/{name}").into_bytes();
    let copied = site.copy(&[
        (".env", MaskKind::Hide),
        ("keys", MaskKind::Hide),
        ("shown", MaskKind::HideWith(with("stand-in"))),
        (".git", MaskKind::Replace(with("git/0"))),
        ("closed", MaskKind::Close),
    ]);
    assert_eq!(fs::read(site.inside(".env")).unwrap(), b"");
    assert_eq!(fs::read_dir(site.inside("keys")).unwrap().count(), 0);
    assert_eq!(fs::read(site.inside("shown")).unwrap(), b"TOKEN=placeholder");
    assert_eq!(
        fs::read_link(site.inside(".git")).unwrap(),
        site.directory.path().join("own/git/0")
    );
    assert_eq!(fs::metadata(site.inside("closed")).unwrap().mode() & 0o777, 0);
    assert_eq!(copied.skipped.len(), 5);
    assert!(copied.entries.is_empty());
}

#[test]
fn what_leads_out_of_a_copy_is_left_out() {
    let site = Site::new();
    let listener = std::os::unix::net::UnixListener::bind(site.host("socket")).unwrap();
    let copied = site.copy(&[]);
    assert!(!site.inside("socket").exists());
    assert!(copied.skipped.contains(Path::new("socket")));
    drop(listener);
}
