//! Sandboxes in a machine's session: programs that make them work, and what their root gets is the guest's alone.

use pinfold_testkit::{installed, skip};

use super::session::{run, stages, text};

const SECRET: &str = "hunter2-under-the-mask";

const BUBBLEWRAP: &str = "bwrap --unshare-all --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp \
                          sh -c 'ls /proc/self/exe >/dev/null && echo bubblewrap works'";

/// Attempts of root of a user namespace with a mount and a process namespace, in a live workspace. Each prints `BREACH` and its
/// number if it succeeds, and `granted` where it shows that the others prove something.
const ATTEMPTS: &str = r#"
ws=$PWD
try() { number=$1; shift; if sh -c "$*" >/tmp/said 2>&1; then echo "BREACH $number: $*"; cat /tmp/said; fi; }
has() { number=$1; shift; if sh -c "$*" 2>&1 | grep -q hunter2; then echo "BREACH $number: $*"; fi; }
mount -t tmpfs none /var/tmp && mount -t proc none /proc && echo granted mounts
mkdir -p /tmp/a /tmp/b /tmp/c /tmp/d /tmp/upper /tmp/work live/upper live/work
cp /bin/true /tmp/tool && chmod 6755 /tmp/tool && [ -u /tmp/tool ] && echo granted bits
mknod /tmp/whiteout c 0 0 && echo granted whiteouts
has 1 "umount -l .env; cat .env"
has 2 "mount --rbind $ws /tmp/a && umount -l /tmp/a/.env; cat /tmp/a/.env"
has 3 "mount -t overlay -o lowerdir=$ws,upperdir=/tmp/upper,workdir=/tmp/work,userxattr none /tmp/b; cat /tmp/b/.env"
has 4 "umount -l $ws; cat $ws/.env"
has 5 "echo 2 >/proc/sys/vm/drop_caches; cat /proc/1/root$ws/.env"
try 10 "cp /bin/true tool && chmod 4755 tool"
try 11 "mknod whiteout c 0 0"
try 12 "mknod disk b 8 0"
try 13 "python3 -c 'import os; os.setxattr(\"tool\", \"security.capability\", bytes([1, 0, 0, 2, 255, 255, 255, 255] + 12 * [0]))'"
try 14 "mount -t overlay -o lowerdir=/tmp/d,upperdir=live/upper,workdir=live/work,userxattr none /tmp/c && cp /bin/true /tmp/c/x && chmod 4755 /tmp/c/x"
try 20 "mount -o remount,rw,bind / && mkdir /new"
try 21 "mount -o remount,rw,bind /usr && touch /usr/x"
try 22 "mount -t virtiofs root /tmp/c"
try 23 "mount -t devtmpfs none /tmp/c"
try 24 "mount -t sysfs none /tmp/c"
try 25 "mknod /tmp/port c 248 1 && head -c 1 /tmp/port"
try 26 "ls /dev/vport0p1 /dev/mem /dev/vda"
try 27 "echo x >/proc/sys/kernel/core_pattern"
try 28 "echo b >/proc/sysrq-trigger"
try 29 "mkdir -p /tmp/groups && mount -t cgroup2 none /tmp/groups && echo max >/tmp/groups/memory.max"
echo tried all
"#;

#[test]
fn nested_sandboxes_in_a_machine_work_and_leave_nothing_on_the_host() {
    for stage in stages("nested") {
        stage.write("ws/.env", format!("PASSWORD={SECRET}\n"));
        stage.write("ws/attempts.sh", ATTEMPTS);
        let mut script = "unshare --map-root-user --mount --pid --fork sh attempts.sh".to_owned();
        let mut expected = vec!["granted mounts", "granted bits", "granted whiteouts", "tried all"];
        if installed("bwrap") {
            script = format!("{BUBBLEWRAP}; {script}");
            expected.push("bubblewrap works");
        } else {
            skip("nested bubblewrap", "bwrap is not installed");
        }
        let output = run(&stage, &["--nested"], &script);
        let (said, errors) = (text(&output.stdout), text(&output.stderr));
        for expected in expected {
            assert!(said.contains(expected), "{expected}: {said}{errors}");
        }
        assert!(!said.contains("BREACH") && !said.contains(SECRET), "{said}{errors}");
        assert!(errors.contains("more of the machine's kernel is in reach"), "{errors}");
        let left = stage
            .command("find")
            .arg(stage.workspace())
            .args(["(", "-perm", "/6000", "-o", "-type", "c", "-o", "-type", "b", ")"])
            .output()
            .unwrap();
        assert_eq!(text(&left.stdout), "");
    }
}
