//! Sessions whose user is root by name, and directories directly below `/`.

use std::os::unix::fs::MetadataExt as _;
use std::{fs, path::Path};

use pinfold_testkit::snapshot::{BASE, possible, repository};
use pinfold_testkit::{Stage, people};

use super::{refused, said, session};

/// Says what a program could do that were root, and is root by name.
const ATTEMPTS: &str = "
ok() { \"$@\" >/dev/null 2>&1 && echo \"DONE: $*\"; }
grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -v '0000000000000000'
ok mount -t tmpfs tmpfs /mnt
ok mount -o remount,rw /etc/hosts
ok umount /etc/hosts
ok mknod /app/null c 1 3
ok chroot / true
ok hostname other
ok sh -c 'echo 1 >/proc/sys/vm/drop_caches'
ok nice -n -5 true
ok unshare -r true
ok setuidgid nobody sh -c 'test $(id -u) = 65534'
echo tried
";

#[test]
fn root_by_name_owns_its_system_and_can_do_nothing_else() {
    if !possible("root_by_name_owns_its_system") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, &format!(r#"{BASE}, "user": "root", "directories": ["/app"]"#));
        let file = stage.write("ws/file", "as it was");
        let (id, owner) = (fs::metadata(&file).unwrap(), fs::metadata(stage.workspace()).unwrap());
        let at = |script: &str| said(&stage.run_shell(&["--workspace", "overlay"], script));
        let seen = at(
            "id -u; echo $USER $LOGNAME; touch /bin/mine /app/mine && chown 12:34 /bin/mine /app/mine && chmod 6755 /app/mine && stat -c %a /app/mine; echo x >file; chown 12 file; chmod 4755 file; touch new; chmod 2755 new",
        );
        assert_eq!(seen, "0\nroot root\n6755\n");
        assert_eq!(at(ATTEMPTS), "tried\n");
        // Nothing of that is on this machine: neither content, nor owners, nor bits.
        let after = fs::metadata(&file).unwrap();
        assert_eq!((after.uid(), after.mode()), (id.uid(), id.mode()));
        assert_eq!(fs::metadata(stage.workspace()).unwrap().uid(), owner.uid());
        assert_eq!(fs::read_to_string(&file).unwrap(), "as it was");
        assert_eq!(bits(&stage.path("home")), Vec::<String>::new());
    }
}

#[test]
fn check_says_what_root_by_name_may_write() {
    if !possible("check_says_what_root_by_name_may_write") {
        return;
    }
    let paths = [
        "/mnt/x",
        "/media/x",
        "/run/lock/x",
        "/run/x",
        "/run/pinfold/x",
        "/var/lock/x",
        "/app/x",
        "/app",
        "/data/x",
        "/bin/x",
        "/etc/x",
        "/proc/x",
        "/sys/x",
        "/dev/x",
        "/dev/shm/x",
        "/tmp/x",
    ];
    for user in people() {
        for (options, with_grant) in
            [("", false), (r#", "user": "root""#, false), (r#", "user": "root""#, true)]
        {
            let stage = Stage::new(user);
            repository(&stage, &format!(r#"{BASE}{options}, "directories": ["/app"]"#));
            let grant = stage.path("readable").display().to_string();
            let more: &[&str] = if with_grant { &["--read", &grant] } else { &[] };
            let modes = [&["--workspace", "overlay"][..], more].concat();
            // Who is not root by name has no directory there.
            let has_locks = |path: &&str| !options.is_empty() || !path.contains("/lock/");
            let paths: Vec<&str> = paths.into_iter().filter(has_locks).collect();
            let tries: Vec<String> = paths
                .iter()
                .map(|path| format!("( : >{path} ) 2>/dev/null && echo {path};"))
                .collect();
            let written = said(&stage.run_shell(&modes, &format!("{} true", tries.concat())));
            let is_allowed = |path: &&str| {
                let check =
                    stage.pinfold(&[&["check", "write"], &modes[..], &[path]].concat()).output();
                check.unwrap().status.success() && *path != "/app"
            };
            let allowed: Vec<&str> = paths.into_iter().filter(is_allowed).collect();
            assert_eq!(allowed, written.lines().collect::<Vec<_>>(), "{options}");
            assert_eq!(allowed.contains(&"/mnt/x"), !options.is_empty());
        }
    }
}

/// Returns files with set-user-ID and set-group-ID bits that others could reach.
fn bits(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() && metadata.mode() & 0o005 != 0 {
            found.extend(bits(&entry.path()));
        } else if metadata.is_file() && metadata.mode() & 0o6000 != 0 {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[test]
fn root_by_name_is_refused_where_files_of_this_machine_can_be_written() {
    if !possible("root_by_name_is_refused") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, &format!(r#"{BASE}, "user": "root""#));
        let error = refused(&stage.run_shell(&["--workspace", "shared_mount"], "true"));
        assert!(error.contains("snapshot.user is root") && error.contains("overlay"), "{error}");
        stage.write("grant/x", "");
        let grant = stage.path("grant").display().to_string();
        let error =
            refused(&stage.run_shell(&["--workspace", "overlay", "--write", &grant], "true"));
        assert!(error.contains("snapshot.user is root"), "{error}");
        let error = refused(&stage.run_shell(&["--workspace", "overlay", "--nested"], "true"));
        assert!(error.contains("nested sandboxes"), "{error}");
        let landlock = ["--workspace", "overlay", "--boundary", "landlock"];
        let error = refused(&stage.run_shell(&landlock, "true"));
        let lacks = "the boundary landlock has no system of an image or a snapshot";
        assert!(error.contains(lacks) && error.contains("these have: namespace"), "{error}");
        let socket = stage.path("grant/socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let socket = socket.display().to_string();
        let error =
            refused(&stage.run_shell(&["--workspace", "overlay", "--socket", &socket], "true"));
        assert!(error.contains("can pass it files"), "{error}");
        // A repository that nobody trusts makes nobody root.
        stage
            .write("ws/sandbox.json", r#"{"snapshot": {"user": "root", "directories": ["/app"]}}"#);
        let output = stage.run_shell(&[], "id -u; touch /app/file && echo own");
        assert!(said(&output).ends_with("\nown\n") && !said(&output).starts_with("0\n"));
        assert!(super::stderr(&output).contains("snapshot.user: be root by name"));
    }
}

#[test]
fn directories_below_the_root_are_private_and_never_another_ones() {
    if !possible("directories_below_the_root") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, &format!(r#"{BASE}, "directories": ["/app", "/data.d", "/bin-2"]"#));
        let script = "touch /app/x /data.d/x /bin-2/x && ls /app; ls -d /bin/sh; test -e /app/old || echo fresh; touch /app/old";
        for _ in 0..2 {
            assert_eq!(session(&stage, script), "x\n/bin/sh\nfresh\n");
        }
        let base = stage.path("base.tar").display().to_string();
        let words = ["run", "--base", &base, "--workspace", "scratch_mount", "--", "true"];
        let mut run = stage.pinfold(&words);
        run.current_dir("/usr/share");
        let error = refused(&run.output().unwrap());
        assert!(error.contains("/usr/share cannot be an empty workspace: /usr is"), "{error}");
        let check = |path: &str| stage.pinfold(&["check", "write", path]).status().unwrap();
        assert!(check("/app/y").success() && !check("/other/y").success());
        for path in ["/usr", "/proc", "/app/sub", "app", "/", "/..", "/a b", "/var", "/.hidden"] {
            stage.write(
                "ws/sandbox.json",
                format!(r#"{{"snapshot": {{"directories": ["{path}"]}}}}"#),
            );
            let error = refused(&stage.run_shell(&[], "true"));
            assert!(error.contains("such as /app") && error.contains("directories"), "{error}");
        }
    }
}
