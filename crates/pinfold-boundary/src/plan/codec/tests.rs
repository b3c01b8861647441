use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_wire::Wire as _;

use crate::plan::{
    Changes, CpuShare, Door, Entry, Identity, Landlock, LaunchPlan, Lower, Place, ResourceLimits,
};

fn plan() -> LaunchPlan {
    let host = |path: &str| HostPath::new(path).unwrap();
    let entry = |path: &str, place| Entry { path: InsidePath::new(path).unwrap(), place };
    let odd = HostPath::from_bytes(b"/odd/\xff,\"\n").unwrap();
    LaunchPlan {
        tree: vec![
            entry("/usr", Place::System(host("/usr"))),
            entry("/data", Place::ReadOnly(host("/data"))),
            entry("/work", Place::Writable(odd)),
            entry(
                "/view",
                Place::Overlay {
                    lower: vec![Lower::Owned(host("/a")), Lower::Foreign(host("/b"))],
                    changes: Changes::Kept(host("/c")),
                },
            ),
            entry("/gone", Place::Overlay { lower: Vec::new(), changes: Changes::Private }),
            entry("/tmp", Place::Private),
            entry("/file", Place::File { content: vec![0, 255], mode: 0o600, keep: true }),
            entry("/link", Place::Symlink("to/there".into())),
        ],
        identity: Identity { uid: 1, gid: 2, home: InsidePath::new("/home/x").unwrap() },
        hostname: "pinfold".to_owned(),
        doors: vec![
            Door::Unix(InsidePath::new("/run/pinfold/door").unwrap()),
            Door::Listener("[::1]:80".parse().unwrap()),
            Door::Datagrams(53),
            Door::Outward(881),
        ],
        limits: ResourceLimits {
            memory: Some(1),
            cpus: Some(CpuShare { thousandths: 1500, required: true }),
            pids: None,
            disk: Some(u64::MAX),
            changes: None,
            files: Some(7),
        },
        landlock: Landlock::AtMost(4),
        nested: true,
        leaves_nothing: true,
    }
}

#[test]
fn a_plan_comes_back_as_it_went() {
    let written = plan();
    let heard = LaunchPlan::decode(&written.encode()).unwrap();
    assert_eq!(format!("{heard:?}"), format!("{written:?}"));
}

#[test]
fn truncated_or_changed_plan_is_refused_or_another_plan() {
    let bytes = plan().encode();
    for end in 0..bytes.len() {
        assert!(LaunchPlan::decode(&bytes[..end]).is_err(), "{end}");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0xff;
        // Whatever it says, it ends.
        let _ = LaunchPlan::decode(&changed);
    }
}
