use pinfold_policy::path::InsidePath;

use super::hold;
use crate::managed::errand::Errand;
use crate::plan::{Identity, Landlock, LaunchPlan, ResourceLimits};

fn errand(uid: u32) -> Errand {
    let plan = LaunchPlan {
        tree: Vec::new(),
        identity: Identity { uid, gid: uid, home: InsidePath::root() },
        hostname: String::new(),
        doors: Vec::new(),
        limits: ResourceLimits::default(),
        landlock: Landlock::AtMost(0),
        nested: false,
        leaves_nothing: false,
    };
    Errand {
        plan,
        looks: Vec::new(),
        owner_is_other: false,
        memory_is_bounded: true,
        open_files: 0,
        configuration: None,
    }
}

/// Both let a sandbox make set-id files, which run as the service user where nothing holds it.
#[test]
fn hostile_errand_gets_no_set_id_files() {
    assert!(hold(errand(1000)).unwrap().owner_is_other);
    assert!(hold(errand(0)).is_err());
}
