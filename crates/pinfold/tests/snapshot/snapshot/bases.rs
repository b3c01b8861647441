//! What a session sees of its system.

use std::fs;
use std::path::Path;

use pinfold_testkit::archive::{Archive, gzip};
use pinfold_testkit::registry::{GZIP, Registry};
use pinfold_testkit::snapshot::{BASE, possible, repository};
use pinfold_testkit::{Stage, people};

use super::{build, cache, kept, refused, said, session};

#[test]
fn a_tarball_a_directory_and_an_image_are_systems_to_run_on() {
    const TEST: &str = "a_tarball_a_directory_and_an_image_are_systems_to_run_on";
    if !possible(TEST) {
        return;
    }
    let registry = Registry::start(TEST);
    let archive = || Archive::system().file("usr/mark", "ours");
    for user in people() {
        let stage = Stage::new(user);
        stage.write("system.tar", archive().bytes());
        stage.write("packed.tar.gz", gzip(&archive().bytes()));
        let unpack = "mkdir ../system && tar -xf ../system.tar -C ../system";
        said(&stage.command("/bin/sh").args(["-c", unpack]).output().unwrap());
        let mut bases =
            vec!["../system.tar".to_owned(), "../packed.tar.gz".into(), "../system".into()];
        if let Some(registry) = &registry {
            registry.push("sys", "1", &[(GZIP, &gzip(&archive().bytes()))]);
            bases.push(format!("{}/sys:1", registry.address));
        }
        for base in bases {
            repository(&stage, &format!(r#""base": "{base}""#));
            let seen =
                session(&stage, "cat /usr/mark; echo; id -un; ls -d ~; ls /usr/share || echo own");
            assert_eq!(seen, "ours\nagent\n/home/agent\nown\n", "{base}");
        }
    }
}

#[test]
fn changes_of_a_session_to_its_system_go_with_it() {
    if !possible("changes_of_a_session_to_its_system_go_with_it") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, BASE);
        let write =
            "echo x >/usr/new; rm /bin/true; echo y >>/etc/own; mkdir /usr/bin/d; echo z >~/f";
        assert_eq!(session(&stage, &format!("{write}; cat /usr/new")), "x\n");
        assert_eq!(
            session(&stage, "ls /usr /etc/own ~ 2>/dev/null; /bin/true; echo $?"),
            "/home/agent:\n\n/usr:\nbin\n0\n"
        );
        let tree = cache(&stage, "bases").join(&kept(&stage, "bases")[0]).join("tree");
        assert!(!tree.join("usr/new").exists() && tree.join("bin/true").is_symlink());
    }
}

#[test]
fn overlay_size_bounds_what_a_session_writes() {
    if !possible("overlay_size_bounds_what_a_session_writes") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, &format!(r#"{BASE}, "overlaySize": "4M""#));
        let script = "head -c 3000000 /dev/zero >/usr/a && echo fits; \
                      cat /usr/a >/var/b || echo full";
        let output = stage.run_shell(&[], script);
        assert_eq!(said(&output), "fits\nfull\n");
        assert!(super::stderr(&output).contains("No space left on device"));
    }
}

#[test]
fn check_tells_of_the_system_that_sessions_run_on() {
    if !possible("check_tells_of_the_system_that_sessions_run_on") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, BASE);
        let check =
            |access: &str, path: &str| stage.pinfold(&["check", access, path]).output().unwrap();
        let error = refused(&check("read", "/bin/sh"));
        assert!(error.contains("is not made yet") && error.contains("snapshot build"), "{error}");
        assert_eq!(kept(&stage, "bases"), Vec::<String>::new(), "nothing is made for a question");
        said(&build(&stage));
        let tree = cache(&stage, "bases").join(&kept(&stage, "bases")[0]).join("tree");
        let shown = said(&check("exec", "/bin/busybox"));
        assert!(shown.contains(&tree.join("bin/busybox").display().to_string()), "{shown}");
        let shown = said(&check("write", "/usr/new"));
        assert!(shown.contains("what is changed there goes with the session"), "{shown}");
        refused(&check("read", "/var/lib/dpkg/status"));
    }
}

#[test]
fn the_sessions_authority_is_trusted_where_the_system_has_its_certificates() {
    if !possible("the_sessions_authority_is_trusted_where_the_system_has_its_certificates") {
        return;
    }
    let certificate = rcgen::generate_simple_self_signed(["own.example".to_owned()]).unwrap();
    let own = certificate.cert.pem();
    for user in people() {
        let stage = Stage::new(user);
        let archive = Archive::system()
            .directory("etc/ssl")
            .file("etc/ssl/bundle", &own)
            .symlink("etc/ssl/cert.pem", "bundle");
        stage.write("system.tar", archive.bytes());
        stage.write(
            "home/.config/pinfold/config.toml",
            "[network]\nrequests = [{ host = \"api.example\", methods = [\"GET\"] }]\n",
        );
        repository(&stage, r#""base": "../system.tar""#);
        let lines: Vec<String> =
            own.lines().filter(|line| line.len() > 60).map(str::to_owned).collect();
        let bundle = session(&stage, "cat /etc/ssl/cert.pem; test ! -e /etc/ssl/certs");
        assert!(lines.iter().all(|line| bundle.contains(line)), "the system's own: {bundle}");
        let ours = session(&stage, "cat /run/pinfold/trust/own.pem /etc/ssl/cert.pem");
        let session = ours.lines().nth(1).unwrap();
        assert_eq!(ours.matches(session).count(), 2, "and the session's");
    }
}

#[test]
fn alpine_is_chosen_for_apk_and_named_where_it_is_missing() {
    if !possible("alpine_is_chosen_for_apk") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, r#""setupCommands": ["apk add git"]"#);
        let mut build = stage.pinfold(&["snapshot", "build"]);
        // Nobody listens there, so that nothing is downloaded wherever the test runs.
        build.env("https_proxy", "http://127.0.0.1:9").env("http_proxy", "http://127.0.0.1:9");
        let error = refused(&build.output().unwrap());
        assert!(error.contains("so the base is alpine"), "{error}");
        assert!(error.contains("snapshot.base: cannot get alpine"), "{error}");
    }
}

#[test]
fn a_directory_with_the_users_home_in_it_is_no_system() {
    if !possible("a_directory_with_the_users_home_in_it_is_no_system") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        stage.write("home/bin/program", "x");
        for base in ["../home", "/", ".."] {
            stage.write("bin/program", "x");
            repository(&stage, &format!(r#""base": "{base}/""#));
            let error = refused(&stage.run_shell(&[], "ls -a /"));
            assert!(error.contains("your home or pinfold's files lie in it"), "{base}: {error}");
        }
    }
}

#[test]
fn system_with_a_link_for_var_runs_and_nothing_is_put_behind_it() {
    if !possible("system_with_a_link_for_var_runs_and_nothing_is_put_behind_it") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let system = Archive::system().file("usr/kept/tmp/mark", "kept").symlink("var", "usr/kept");
        stage.write("system.tar", system.bytes());
        repository(&stage, r#""base": "../system.tar""#);
        let output =
            stage.run_shell(&[], "cat /var/tmp/mark; echo x > /var/tmp/new; readlink /var");
        assert_eq!(said(&output), "keptusr/kept\n");
        let error = refused(&stage.run_shell(&["--read", "/var/lib"], "true"));
        assert!(error.contains("/var/lib cannot be put into the sandbox: /var of"), "{error}");
    }
}

/// Whether a session runs on this machine's own system until somebody trusts another.
fn waits(stage: &Stage) -> bool {
    let output = stage.run_shell(&[], "test -d /usr/share");
    said(&output);
    super::stderr(&output).contains("waits for `pinfold trust`")
}

#[test]
fn a_base_of_the_repository_that_a_session_changes_waits_for_trust() {
    if !possible("a_base_of_the_repository_that_a_session_changes_waits_for_trust") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        stage.write("ws/system.tar", Archive::system().file("usr/mark", "ours").bytes());
        stage.write("ws/other.tar", Archive::system().file("usr/mark", "theirs").bytes());
        let unpack = "mkdir system && tar -xf system.tar -C system";
        said(&stage.command("/bin/sh").args(["-c", unpack]).output().unwrap());
        let change_tarball = "cat other.tar >system.tar; touch -d @0 system.tar";
        let change_directory = "echo theirs >system/usr/mark; touch -d @0 system/usr/mark";
        for (base, change) in [("./system.tar", change_tarball), ("./system", change_directory)] {
            let settings = format!(r#"{{"snapshot": {{"base": "{base}"}}}}"#);
            stage.write("ws/sandbox.json", &settings);
            let shown = stage.pinfold(&["trust", "--yes"]).output().unwrap();
            let says =
                format!("Sessions run on this, which is trusted as it is now:\n        {base}");
            assert!(said(&shown).contains(&says), "{}", said(&shown));
            let hash = said(&stage.pinfold(&["trust", "--hash"]).output().unwrap());
            let run = stage.run_shell(&[], &format!("cat /usr/mark; {change}"));
            assert_eq!(said(&run), "ours", "{base}");
            assert!(waits(&stage), "{base}");
            let given = stage.run_shell(&["--trust-config", hash.trim()], "cat /usr/mark");
            assert!(refused(&given).contains("has changed"), "{base}");
            said(&stage.pinfold(&["trust", "--yes"]).output().unwrap());
            assert!(session(&stage, "cat /usr/mark").starts_with("theirs"), "{base}");
        }
    }
}

/// A session writes to the workspace: it could name another system for the next.
#[test]
fn a_directory_in_the_workspace_is_no_link_out_of_it() {
    if !possible("a_directory_in_the_workspace_is_no_link_out_of_it") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        stage.write("ws/system.tar", Archive::system().file("usr/mark", "ours").bytes());
        let unpack = "mkdir system && tar -xf system.tar -C system";
        said(&stage.command("/bin/sh").args(["-c", unpack]).output().unwrap());
        let trust = || repository(&stage, r#""base": "./system""#);
        trust();
        assert_eq!(session(&stage, "cat /usr/mark"), "ours");
        stage.write("private/usr/secret", "secret");
        let swap = "mv system before && ln -s ../private system";
        said(&stage.run_shell(&["--opt-in", "outward-links"], swap));
        assert!(waits(&stage));
        trust();
        let error = refused(&stage.run_shell(&[], "cat /usr/secret"));
        assert!(error.contains("a link leads out of it"), "{error}");
        // Further down a link is what it is inside.
        let swap = "rm system && mv before system && rm -r system/usr && \
                    ln -s ../../private/usr system/usr";
        said(&stage.command("/bin/sh").args(["-c", swap]).output().unwrap());
        trust();
        let output = stage.run_shell(&[], "cat /usr/secret");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("secret"));
    }
}

/// A link in a tarball where the session's home is leads to nothing of the host's.
#[test]
fn a_system_cannot_point_its_home_at_the_users_files() {
    if !possible("a_system_cannot_point_its_home_at_the_users_files") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        stage.write("home/.pi/agent/auth.json", "secret-token");
        let absolute = stage.path("home/.pi").display().to_string();
        // From the tree through the cache to the user's home, and by name.
        for (index, target) in ["../../../../../.pi", &absolute].iter().enumerate() {
            let name = format!("hostile-{index}.tar");
            stage.write(&name, Archive::system().symlink("home", target).bytes());
            repository(
                &stage,
                &format!(
                    r#""base": "../{name}", "setupCommands": ["ls -la ~; cat ~/auth.json || true"]"#
                ),
            );
            let seen = session(&stage, "find / -name auth.json 2>/dev/null; cat ~/auth.json; true");
            assert_eq!(seen, "", "{target}");
            let built = &kept(&stage, "snapshots");
            for id in built {
                let log = fs::read_to_string(cache(&stage, "snapshots").join(id).join("build.log"));
                assert!(!log.unwrap().contains("secret-token"));
            }
            assert!(Path::new(&absolute).join("agent/auth.json").exists());
        }
    }
}
