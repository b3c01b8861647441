use std::path::{Path, PathBuf};

use pinfold_boundary::{Entry, Identity, Landlock, LaunchPlan, Place, ResourceLimits};
use pinfold_policy::path::{HostPath, InsidePath};

use super::{OWN, own_tree};
use crate::guest::Beneath;
use crate::spec::Spec;

fn plan(places: Vec<(&str, Place)>) -> LaunchPlan {
    let entry =
        |(path, place): (&str, Place)| Entry { path: InsidePath::new(path).unwrap(), place };
    LaunchPlan {
        tree: places.into_iter().map(entry).collect(),
        identity: Identity { uid: 1000, gid: 1000, home: InsidePath::new("/home/agent").unwrap() },
        hostname: "machine".to_owned(),
        doors: Vec::new(),
        limits: ResourceLimits::default(),
        landlock: Landlock::BestEffort,
        nested: false,
        leaves_nothing: false,
    }
}

#[test]
fn file_in_a_granted_directory_beneath_a_private_one_comes_with_it() {
    let spec = Spec {
        kernel: PathBuf::new(),
        initramfs: PathBuf::new(),
        memory: 512,
        cpus: 1,
        share: None,
        changes: 0,
        has_tree: true,
    };
    let host = || HostPath::new("/var/state").unwrap();
    let file = || Place::File { content: Vec::new(), mode: 0o600, keep: true };
    let plan = plan(vec![
        ("/home/agent", Place::Private),
        ("/home/agent/.gitconfig", file()),
        ("/home/agent/.state", Place::Writable(host())),
        ("/home/agent/.state/settings.json", file()),
        ("/home/agent/.state/private", Place::Private),
        ("/home/agent/.state/private/file", file()),
        ("/run", Place::Private),
        ("/run/pinfold/program", Place::ReadOnly(host())),
    ]);
    let tree = own_tree(&plan, &spec);
    let beneath = |kind| {
        let places = tree.beneath.iter().filter(move |place| place.kind == kind);
        places.map(|place| place.path.as_path()).collect::<Vec<_>>()
    };
    let granted = [OWN, "/home/agent/.state"].map(Path::new);
    assert_eq!(beneath(Beneath::Granted), granted);
    let made = ["/home/agent/.gitconfig", "/home/agent/.state/private/file"].map(Path::new);
    assert_eq!(beneath(Beneath::Made), made);
}
