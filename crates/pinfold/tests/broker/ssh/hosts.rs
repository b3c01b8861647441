//! git over ssh, to a real sshd, with a key that is nowhere inside.

use std::fs;
use std::thread;

use pinfold_testkit::memory::{descendants, search_memory};
use pinfold_testkit::{executable, skip};

use super::world::{World, people_with_hosts};

#[test]
fn git_pushes_and_clones_over_ssh() {
    for user in people_with_hosts("git over ssh") {
        let world = World::new(user);
        let url = world.url();
        let script = format!(
            "git -c user.name=Agent -c user.email=agent@example.com commit -q -S --allow-empty -m one \
             && git push -q {url} HEAD:main && git clone -q {url} /tmp/clone && cd /tmp/clone && \
             git log --format=%s && cat ~/.ssh/known_hosts"
        );
        let said = world.inside(&script).succeeded();
        assert!(said.contains("one\ngit.example.com ssh-ed25519 "), "{said}");
        let log = world.outside("git", &["--git-dir=../remote.git", "log", "--format=%s", "main"]);
        assert_eq!(log.succeeded(), "one\n");
        let audit = world.audit();
        let login = r#""event":"signature","purpose":"ssh-login","key":"SHA256:"#;
        assert_eq!(audit.matches(login).count(), 2, "{audit}");
        assert!(
            audit.contains(r#""login":{"host":"git.example.com","user":"git","host-key":"SHA256:"#)
        );
    }
}

#[test]
fn a_host_of_the_users_known_hosts_is_found_by_its_hash() {
    for user in people_with_hosts("hashed hosts") {
        let world = World::new(user);
        let key = fs::read_to_string(world.stage.path("world/host.pub")).unwrap();
        world.stage.write("home/.ssh/known_hosts", format!("git.example.com {key}"));
        world.outside("ssh-keygen", &["-q", "-H", "-f", "../home/.ssh/known_hosts"]).succeeded();
        world.stage.write(
            "home/.config/pinfold/config.toml",
            "[ssh]\nkey = \"~/.ssh/id\"\nhosts = [{ host = \"git.example.com\" }]\n",
        );
        let said = world.inside(&format!("git ls-remote {}", world.url()));
        said.succeeded();
    }
}

/// A line of the private key's file that holds nothing of the public half.
fn secret_line(world: &World) -> String {
    let text = fs::read_to_string(world.stage.path("home/.ssh/id")).unwrap();
    // The first two lines of base64 hold the public half, which comes again later.
    text.lines().nth(4).unwrap().to_owned()
}

#[test]
fn the_private_key_is_nowhere_inside() {
    for user in people_with_hosts("the private key") {
        let world = World::new(user);
        let line = secret_line(&world);
        assert!(line.len() >= 48, "{}", line.len());
        // The shell that looks for it does not hold it whole.
        let (first, second) = line.split_at(line.len() / 2);
        let script = format!(
            "git ls-remote {} && ! grep -rqs {first}''{second} / --exclude-dir=proc --exclude-dir=sys \
             --exclude-dir=usr && mkfifo go && echo >ready && cat go",
            world.url()
        );
        let mut run = world.command(executable(), &["run", "--", "sh", "-c", &script]);
        let run = run.spawn().unwrap();
        let (pid, ready) = (run.id(), world.stage.path("ws/ready"));
        let done = thread::spawn(move || run.wait_with_output().unwrap());
        while !ready.exists() && !done.is_finished() {
            // There is no event for a file in a tree that the command makes.
            thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(!done.is_finished(), "{:?}", done.join().unwrap());
        if rustix::process::geteuid().is_root() {
            let inside = descendants(pid);
            let init = inside.iter().skip_while(|pid| !is_init(**pid));
            let across = &line[line.len() / 2 - 12..line.len() / 2 + 12];
            let (mut looked, mut probed) = (0, false);
            for pid in init {
                let (searched, found) = search_memory(*pid, across);
                assert!(searched > 0 && found.is_empty(), "process {pid}: {found:?}");
                probed |= !search_memory(*pid, first).1.is_empty();
                looked += 1;
            }
            assert!(looked >= 2, "init and the shell: {inside:?}");
            assert!(probed, "the probe finds nothing where half the line is: in the shell");
        } else {
            skip("memory", "only root reads init's memory: searched from inside alone");
        }
        fs::write(world.stage.path("ws/go"), "go").unwrap();
        assert!(done.join().unwrap().status.success());
    }
}

/// Whether a process is the first of a process namespace of its own.
fn is_init(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    ids.split_ascii_whitespace().count() > 1
}
