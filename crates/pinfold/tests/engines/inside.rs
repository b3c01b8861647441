//! pinfold in a container that somebody else has started, as a development container is.

use pinfold_testkit::engines::Room;
use pinfold_testkit::{Stage, User, executable, installed, skip};

const FILTER: &str = "--security-opt=seccomp=unconfined";
const PATHS: &str = "--security-opt=systempaths=unconfined";
const PROFILE: &str = "--security-opt=apparmor=unconfined";

#[test]
fn container_says_which_options_it_lacks_and_has_sandboxes_with_them() {
    let Some(room) = Room::docker("pinfold in a container") else { return };
    room.load("base:1", "2024-01-01T00:00:00Z", "a container");
    let program = format!("{}:/pinfold:ro", executable());
    let run = |user: &str, options: &[&str]| {
        let fixed = [
            "run",
            "--rm",
            "--network=none",
            "--tmpfs=/tmp:mode=1777,exec",
            "--volume",
            &program,
            "--env=HOME=/tmp/home",
            "--user",
            user,
        ];
        // The command line for the container's own shell: an image has no directory for a workspace.
        let line = "mkdir -p /tmp/home /tmp/project; cd /tmp/project; \
                    exec /pinfold run -- sh -c 'echo made >made; echo inside; exit 7'";
        let output = room.run(&[&fixed, options, &["base:1", "sh", "-c", line]].concat());
        let said = [output.stdout, output.stderr]
            .map(|it| String::from_utf8_lossy(&it).into_owned())
            .concat();
        (output.status.code().unwrap(), said)
    };
    let refused = |user: &str, options: &[&str], hint: &str| {
        let (code, said) = run(user, options);
        assert_eq!(code, 125, "{said}");
        assert!(said.contains(hint), "{said}");
    };
    // What a filter of Docker's answers to clone3(2) is what an old kernel does.
    refused("1000", &[PROFILE], FILTER.trim_start_matches("--security-opt="));
    refused("1000", &[PROFILE, FILTER], PATHS.trim_start_matches("--security-opt="));
    // Root of a container has no right to show files under another owner, and is never the sandbox's own user.
    refused("0", &[PROFILE, FILTER, PATHS], "run pinfold as an ordinary user");
    let (code, said) = run("1000", &[PROFILE, FILTER, PATHS]);
    assert_eq!(code, 7, "{said}");
    assert!(said.contains("inside\n"), "{said}");
}

/// A container can have some of root's rights, and lack one.
#[test]
fn root_that_lacks_a_right_is_refused_with_its_name() {
    let user = User::current();
    if !user.is_root() || !installed("setpriv") {
        return skip(
            "root_that_lacks_a_right_is_refused_with_its_name",
            "it needs root and setpriv",
        );
    }
    let stage = Stage::new(user);
    for (right, command, code) in [
        ("sys_admin", &["run", "--", "true"][..], 125),
        ("setuid", &["run", "--", "true"], 125),
        ("setgid", &["run", "--", "true"], 125),
        ("chown", &["doctor"], 1),
    ] {
        let mut without = stage.command("setpriv");
        without.args(["--inh-caps", "-all", "--bounding-set", &format!("-{right}"), executable()]);
        let output = without.args(command).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let expected = format!("this is root without CAP_{}", right.to_uppercase());
        assert!(said.contains(&expected), "{right}: {said}");
        assert_eq!(output.status.code(), Some(code), "{right}: {said}");
    }
}
