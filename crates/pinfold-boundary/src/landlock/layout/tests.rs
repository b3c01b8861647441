use std::path::Path;

use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_wire::{Mask, MaskKind};

use super::Layout;
use crate::plan::{Changes, Entry, Identity, Landlock, LaunchPlan, Lower, Place, ResourceLimits};

fn host(path: &str) -> HostPath {
    HostPath::new(path).unwrap()
}

fn entry(path: &str, place: Place) -> Entry {
    Entry { path: InsidePath::new(path).unwrap(), place }
}

fn file() -> Place {
    Place::File { content: Vec::new(), mode: 0o644, keep: false }
}

fn view() -> Entry {
    let changes = Changes::Kept(host("/state/layers"));
    entry(
        "/work/project",
        Place::Overlay { lower: vec![Lower::Owned(host("/work/project"))], changes },
    )
}

fn layout(tree: Vec<Entry>) -> Result<Layout, String> {
    let plan = LaunchPlan {
        tree,
        identity: Identity { uid: 1000, gid: 1000, home: InsidePath::from_static("/home/agent") },
        hostname: "pinfold".to_owned(),
        doors: Vec::new(),
        limits: ResourceLimits::default(),
        landlock: Landlock::BestEffort,
        nested: false,
        leaves_nothing: false,
    };
    Layout::of(&plan, Path::new("/session")).map_err(|error| error.to_string())
}

#[test]
fn places_of_the_sandboxs_own_lie_in_the_sessions_directory() {
    let layout = layout(vec![
        entry("/usr", Place::ReadOnly(host("/usr"))),
        entry("/tmp", Place::Private),
        entry("/home/agent", Place::Private),
        entry("/home/agent/.claude", Place::Writable(host("/state/claude"))),
        entry("/run/pinfold/git", Place::Writable(host("/state/git"))),
        entry("/etc/passwd", file()),
        view(),
    ])
    .unwrap();
    let lies = |path: &str| layout.place(Path::new(path)).to_str().unwrap().to_owned();
    assert_eq!(lies("/usr/bin/git"), "/usr/bin/git");
    assert_eq!(lies("/tmp"), "/session/root/tmp");
    assert_eq!(lies("/home/agent/.claude/x"), "/session/root/home/agent/.claude/x");
    assert_eq!(lies("/run/pinfold/git/0"), "/session/root/run/pinfold/git/0");
    assert_eq!(lies("/work/project/src"), "/state/layers/work/project/src");
    assert_eq!(lies("/work/project2"), "/work/project2");
    assert_eq!(lies("/etc/passwd"), "/etc/passwd");
    let changed = ["/session/root/tmp", "/session/root/home/agent", "/state/claude", "/state/git"];
    let copy = "/state/layers/work/project";
    assert_eq!(
        layout.changed,
        changed.iter().chain([&copy]).map(Into::into).collect::<Vec<std::path::PathBuf>>()
    );
    assert_eq!(layout.read, [Path::new("/usr")]);
}

#[test]
fn what_cannot_be_shown_is_refused_with_its_path() {
    let lower = vec![Lower::Owned(host("/snapshots/usr"))];
    let refused = [
        entry("/usr", Place::ReadOnly(host("/snapshots/usr"))),
        entry("/usr", Place::Overlay { lower: lower.clone(), changes: Changes::Private }),
        entry("/usr", Place::Overlay { lower, changes: Changes::Kept(host("/state/layers")) }),
        entry("/etc/ssl/cert.pem", file()),
        entry("/bin", Place::Symlink("elsewhere".into())),
    ];
    for entry in refused {
        let path = entry.path.to_string();
        let said = layout(vec![entry]).unwrap_err();
        assert!(said.contains(&path), "{said}");
    }
    let shadow = entry("/work/project/build", Place::Private);
    assert!(layout(vec![view(), shadow]).unwrap_err().contains("shadowed"));
}

#[test]
fn masks_hold_in_the_copy_alone() {
    let tree = vec![
        view(),
        entry("/data", Place::ReadOnly(host("/data"))),
        entry("/shared", Place::Writable(host("/shared"))),
    ];
    let sort = |path: &str, kind: MaskKind| {
        let mut layout = layout(tree.clone()).unwrap();
        let masks = vec![Mask { path: path.as_bytes().to_vec(), kind }];
        layout.sort(masks, &tree).map(|of_view| of_view.into_keys().collect::<Vec<_>>())
    };
    assert_eq!(sort("/work/project/.env", MaskKind::Hide).unwrap(), [Path::new(".env")]);
    assert!(sort("/data/.git", MaskKind::ReadOnly).unwrap().is_empty());
    for (path, kind) in [
        ("/data/.env", MaskKind::Hide),
        ("/data/closed", MaskKind::Close),
        ("/shared/.git", MaskKind::ReadOnly),
        ("/shared/.git", MaskKind::Replace(b"/run/pinfold/git/0".to_vec())),
        ("/shared/.vscode", MaskKind::Pin),
    ] {
        let failure = sort(path, kind).unwrap_err();
        assert_eq!(failure.detail, path.as_bytes());
    }
}
