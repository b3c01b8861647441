//! git as people use it: over https and over ssh.

use std::path::Path;

use pinfold_testkit::Stage;

use super::World;
use super::world::people_with;

pub(super) fn run(stage: &Stage, program: &str, args: &[&str]) {
    let output = stage.command(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A bare repository with a commit, that may be pushed to.
fn repository(stage: &Stage) {
    let bare = stage.path("world/git/repo.git");
    stage.write("world/git/hello", "hello\n");
    run(stage, "git", &["init", "-q", "--bare", "-b", "main", bare.to_str().unwrap()]);
    run(stage, "git", &["-C", bare.to_str().unwrap(), "config", "http.receivepack", "true"]);
    let work = stage.path("world/git/work");
    let work = work.to_str().unwrap();
    run(stage, "git", &["init", "-q", "-b", "main", work]);
    stage.write("world/git/work/file", "first\n");
    let by = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-C", work];
    run(stage, "git", &["-C", work, "add", "file"]);
    run(stage, "git", &[&by[..], &["commit", "-q", "-m", "first"]].concat());
    run(stage, "git", &["-C", work, "push", "-q", bare.to_str().unwrap(), "main"]);
}

/// Clones, commits something large enough for chunks, pushes, and clones again.
fn script(url: &str) -> String {
    format!(
        "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=A \
         GIT_COMMITTER_EMAIL=a@example.org\n\
         set -e\nmkdir $1\ncd $1\ngit clone -q {url} one 2>&1\ncat one/file\n\
         head -c 3000000 /dev/urandom > one/large\ngit -C one add large\n\
         git -C one commit -q -m $1\ngit -C one push -q origin main 2>&1\n\
         git clone -q --depth 1 {url} two 2>&1\ngit -C two log --format=%s\n\
         cmp one/large two/large && echo same\n"
    )
}

/// What was said besides that the clones were taken over, with nothing left out.
fn notes(said: &str) -> Vec<&str> {
    let is_clone = |line: &&str| {
        line.starts_with("pinfold: taken over: new repository ") && !line.contains("left out")
    };
    said.lines().filter(|line| !is_clone(line)).collect()
}

fn works(world: &World, options: &[&str], url: &str, name: &str) {
    let said = world.run(options, &["sh", "-c", &script(url), "sh", name]);
    assert_eq!(notes(&said.err), Vec::<&str>::new(), "{}", said.out);
    assert_eq!(said.out, format!("first\n{name}\nsame\n"));
}

#[test]
fn git_clones_and_pushes_over_https() {
    for user in people_with("git over https", &["git"]) {
        let world = World::prepared(user, &["registry"], repository);
        let allowed = ["--allow-host", "git.example.org"];
        let url = "https://git.example.org/git/repo.git";
        works(&world, &allowed, url, "tunnelled");
        let intercepted = [&allowed[..], &["--intercept", "git.example.org"]].concat();
        works(&world, &intercepted, url, "intercepted");
    }
}

fn keys(stage: &Stage) {
    repository(stage);
    let file = |name: &str| stage.path(name).to_str().unwrap().to_owned();
    for key in ["world/host_key", "ws/key"] {
        run(stage, "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &file(key)]);
    }
    let config = format!(
        "ListenAddress 93.184.216.36:22\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
         UsePAM no\nPidFile none\nLogLevel VERBOSE\n",
        file("world/host_key"),
        file("ws/key.pub"),
    );
    stage.write("world/sshd_config", config);
}

#[test]
fn git_clones_and_pushes_over_ssh_without_any_set_up() {
    // sshd as root wants directories of the system's; an ordinary user's wants none.
    let people = people_with("git over ssh", &["git", "ssh", "sshd", "ssh-keygen"]);
    for user in people.into_iter().filter(|user| !user.is_root()) {
        let world = World::prepared(user, &["sshd"], keys);
        let output =
            world.stage.command("id").args(["-un", &user.uid.to_string()]).output().unwrap();
        let user = String::from_utf8(output.stdout).unwrap();
        let path = world.stage.path("world/git/repo.git");
        let url = format!("ssh://{}@git.example.org{}", user.trim(), Path::new(&path).display());
        let prelude = "export GIT_SSH_COMMAND=\"ssh -i $PWD/key -o BatchMode=yes \
            -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=$PWD/known\"\n";
        let script = format!("{prelude}{}", script(&url));
        let run =
            |rule, name| world.run(&["--allow-host", rule], &["sh", "-c", &script, "sh", name]);
        let said = run("git.example.org:22", "by-ssh");
        // The client and the test's user say things too.
        let own = ["first", "by-ssh", "same"];
        let out: Vec<&str> = said.out.lines().filter(|line| own.contains(line)).collect();
        assert_eq!((out, notes(&said.err)), (own.to_vec(), Vec::new()), "{}", said.out);
        let said = run("git.example.org", "refused");
        assert!(!said.out.contains("first"), "{}", said.out);
        assert_eq!(said.refusals().len(), 1, "{}", said.err);
        assert!(said.refusals()[0].contains("--allow-host git.example.org:22"), "{}", said.err);
    }
}
