//! Builds that fill the disk, and the limits of builds.

use std::fs;
use std::process::{Output, Stdio};

use pinfold_testkit::archive::{Archive, gzip};
use pinfold_testkit::snapshot::{BASE, commands, possible, repository};
use pinfold_testkit::{Stage, User, executable, installed, people, skip};

use super::{build, cache, kept, refused, said, session, stderr};

fn limits(stage: &Stage, resources: &str) {
    let text = format!("[resources]\n{resources}\n");
    stage.write("home/.config/pinfold/config.toml", text);
}

#[test]
fn a_build_that_writes_more_than_it_may_is_ended_and_leaves_nothing() {
    if !possible("a_build_that_writes_more_than_it_may_is_ended") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        limits(&stage, "build = \"8M\"");
        // One that ends by itself, one that does not, many small ones, and one that hides it.
        for command in [
            "dd if=/dev/zero of=/opt/x bs=1M count=9",
            "while :; do dd if=/dev/zero of=/opt/x bs=1M count=16; done",
            "i=0; while :; do echo x >/opt/$i; i=$((i+1)); done",
            "mkdir /opt/d; (chmod 0 /opt/d; dd if=/dev/zero bs=1M count=9) >/opt/d/x",
        ] {
            commands(&stage, &["echo fine", command]);
            let error = refused(&build(&stage));
            let says = "set-up commands wrote more than 8M to the disk, the limit resources.build";
            assert!(error.contains(says), "{command}: {error}");
            assert!(error.contains("raise `build` under [resources]"), "{error}");
            assert_eq!(kept(&stage, "snapshots"), Vec::<String>::new(), "{command}");
        }
        commands(&stage, &["dd if=/dev/zero of=/opt/x bs=1M count=16; rm /opt/x"]);
        said(&build(&stage));
    }
}

#[test]
fn a_base_that_is_larger_than_a_build_may_be_is_refused() {
    if !possible("a_base_that_is_larger_than_a_build_may_be") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        limits(&stage, "build = \"8M\"");
        let large = Archive::system().file("usr/large", &"x".repeat(9 << 20)).bytes();
        for (name, bytes, says) in [
            ("packed.tar.gz", gzip(&large), "unpack to more than 8388608 bytes"),
            ("large.tar", large, "more than 8M, the limit resources.build"),
        ] {
            stage.write(name, bytes);
            repository(&stage, &format!(r#""base": "../{name}""#));
            let error = refused(&build(&stage));
            assert!(error.contains(says), "{name}: {error}");
            assert_eq!(kept(&stage, "bases"), Vec::<String>::new(), "{name}");
        }
    }
}

#[test]
fn builds_have_the_limits_of_the_settings() {
    if !possible("builds_have_the_limits_of_the_settings") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        limits(&stage, "files = 77\nmemory = \"64M\"\ntimeout = \"1s\"");
        // The time of a session does not count for a build.
        commands(&stage, &["ulimit -n >/opt/files; sleep 1.2"]);
        said(&build(&stage));
        let log = cache(&stage, "snapshots").join(&kept(&stage, "snapshots")[0]);
        assert_eq!(fs::read_to_string(log.join("tree/opt/files")).unwrap(), "77\n");
        commands(&stage, &["dd if=/dev/zero of=/dev/null bs=200M count=9"]);
        let error = refused(&build(&stage));
        assert!(error.contains("raise `memory` under [resources] in config.toml"), "{error}");
    }
}

/// A build by this user whose cache is a file system of its own, with these options; and what is
/// left in it.
fn build_on(stage: &Stage, options: &str) -> Output {
    let User { uid, gid } = stage.user;
    fs::create_dir_all(stage.path("cache")).unwrap();
    let line = format!(
        "mount -t tmpfs -o {options},mode=700,uid={uid},gid={gid} full ../cache && exec setpriv \
         --reuid {uid} --regid {gid} --clear-groups sh -c '{} snapshot build; echo status $?; \
         find ../cache -mindepth 3 ! -name \"*.lock\" ! -path \"*/names*\" ! -path \"*/bases/*\"'",
        executable()
    );
    let mut shell = User { uid: 0, gid: 0 }.command("unshare");
    shell.args(["-m", "sh", "-c", &line]).current_dir(stage.workspace());
    shell.env("HOME", stage.path("home")).env("XDG_CACHE_HOME", stage.path("cache"));
    shell.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn full_disk_is_reported_and_nothing_is_left() {
    const TEST: &str = "full_disk_is_reported_and_nothing_is_left";
    let root = rustix::process::geteuid().is_root();
    if !possible(TEST) || !root || !installed("unshare") || !installed("setpriv") {
        return skip(TEST, "it takes root, unshare and setpriv");
    }
    for user in people() {
        let stage = Stage::new(user);
        let big = Archive::system().file("usr/big", &"x".repeat(6 << 20)).bytes();
        stage.write("big.tar", &big);
        stage.write("big.tar.gz", gzip(&big));
        for name in ["big.tar", "big.tar.gz"] {
            repository(&stage, &format!(r#""base": "../{name}""#));
            let output = build_on(&stage, "size=8m");
            assert!(stderr(&output).contains("no space left in "), "{}", stderr(&output));
            assert_eq!(said(&output), "status 125\n", "{}", stderr(&output));
        }
        for (options, command) in [
            ("size=8m", "dd if=/dev/zero of=/opt/x bs=1M count=9"),
            ("size=8m", "while :; do dd if=/dev/zero of=/opt/x bs=1M count=9; done"),
            // A second name for what has none any more.
            ("size=8m", "exec 3>/opt/x; rm /opt/x; dd if=/dev/zero bs=1M count=9 >&3 || sleep 60"),
            ("size=64m,nr_inodes=600", "i=0; while :; do echo >/opt/$i; i=$((i+1)); done"),
        ] {
            repository(&stage, &format!(r#"{BASE}, "setupCommands": ["{command}"]"#));
            let output = build_on(&stage, options);
            let error = stderr(&output);
            let cache = stage.path("cache/pinfold/snapshots");
            let says = format!("the disk of {} is nearly full", cache.display());
            assert!(error.contains(&says), "{command}: {error}");
            assert!(error.contains("set XDG_CACHE_HOME to a directory on another disk"), "{error}");
            assert_eq!(said(&output), "status 125\n", "{command}: {error}");
        }
        let gone = "exec 3>/opt/x; rm /opt/x; dd if=/dev/zero bs=1M count=9 >&3";
        repository(&stage, &format!(r#"{BASE}, "setupCommands": ["{gone}"]"#));
        let error = stderr(&build_on(&stage, "size=8m"));
        let way_out = "set XDG_CACHE_HOME to a directory on another disk";
        assert!(error.contains("No space left") && error.contains(way_out), "{error}");
    }
}

#[test]
fn session_that_fills_its_system_reports_which_limit_it_was() {
    if !possible("session_that_fills_its_system_reports_which_limit_it_was") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, &format!(r#"{BASE}, "overlaySize": "4M""#));
        assert_eq!(session(&stage, "dd if=/dev/zero of=/usr/x bs=1M count=3; echo fits"), "fits\n");
        for script in [
            "dd if=/dev/zero of=/usr/x bs=1M count=5; echo full",
            // Seen while the command runs, although nothing is left at its end.
            "dd if=/dev/zero of=/usr/x bs=1M count=5; sleep 0.5; rm /usr/x; echo full",
        ] {
            let output = stage.run_shell(&[], script);
            assert_eq!(said(&output), "full\n", "a limit that ends nothing");
            assert!(
                stderr(&output).contains("the overlaySize limit was reached"),
                "{}",
                stderr(&output)
            );
        }
        let audit = said(&stage.pinfold(&["audit", "--json"]).output().unwrap());
        assert!(audit.contains(r#""limit":"overlaySize""#), "{audit}");
        let fits = stage.run_shell(&[], "true");
        assert!(!stderr(&fits).contains("limit"), "{}", stderr(&fits));
    }
}

#[test]
fn overlay_size_bounds_how_many_files_a_session_makes() {
    if !possible("overlay_size_bounds_how_many_files_a_session_makes") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, &format!(r#"{BASE}, "overlaySize": "4M""#));
        // An empty file takes none of the size, but memory of the kernel.
        let script = "i=0; while [ $i -lt 20000 ] && true >/usr/$i; do i=$((i+1)); done; echo $i";
        let output = stage.run_shell(&[], script);
        let made: u32 = said(&output).trim().parse().unwrap();
        assert!((10_000..=16_384).contains(&made), "{made}");
        let errors = stderr(&output);
        assert!(errors.contains("the overlaySize limit was reached"), "{errors}");
    }
}
