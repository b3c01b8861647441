//! What the key does not do.

use super::world::{Said, World, people_with, people_with_hosts, stage_with_key};

/// ssh from inside that believes any host.
const GULLIBLE: &str = "ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null";

/// What a host does that an agent was forwarded to: sign, and log in elsewhere.
const HOP: &str = "d=$(mktemp -d) && trap 'rm -rf $d' EXIT && cd $d && ssh-add -L >key.pub && echo text >text && \
    ssh-keygen -Y sign -n git -f key.pub text; cat text.sig; \
    ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null git@93.184.216.34 echo HOPPED";

#[test]
fn the_agent_signs_nothing_else_for_a_program_that_speaks_to_it() {
    for user in people_with("hostile requests", &["python3", "ssh-keygen"]) {
        let stage = stage_with_key(user, "ed25519");
        stage.write("home/.config/pinfold/config.toml", "[ssh]\nkey = \"~/.ssh/id\"\n");
        stage.write("ws/ask.py", include_str!("ask.py"));
        let output = stage.run(&[], &["python3", "ask.py"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("pinfold: refused: only commits and tags are signed"), "{said}");
        let audit = std::fs::read_to_string(stage.state().join("audit.jsonl")).unwrap();
        assert_eq!(audit.matches(r#""purpose":"git-signature""#).count(), 2, "{audit}");
        assert!(audit.contains(r#""event":"denial","door":"ssh-agent","what":"ssh-login""#));
    }
}

fn refused(said: Said, reason: &str) {
    let output = said.failed();
    assert!(output.contains("Permission denied (publickey)"), "{output}");
    assert!(output.contains(reason), "{reason}: {output}");
}

#[test]
fn a_host_with_another_key_is_refused_by_ssh_and_by_the_agent() {
    for user in people_with_hosts("other host keys") {
        let world = World::new(user);
        let said = world.inside("ssh evil.example.com true").failed();
        assert!(said.contains("Host key verification failed"), "{said}");
        let said = world.inside(&format!("{GULLIBLE} evil.example.com true"));
        refused(said, "a login to a host with the key SHA256:");
        assert!(!world.audit().contains("ssh-login\",\"key"));
    }
}

#[test]
fn another_user_is_refused() {
    for user in people_with_hosts("other users") {
        let world = World::new(user);
        // The control: the account itself takes the key.
        let control = ["-i", "../home/.ssh/id", "-o", "IdentitiesOnly=yes"];
        let options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"];
        let args = [&control[..], &options, &["other@git.example.com", "true"]].concat();
        world.outside("ssh", &args).succeeded();
        let said = world.inside("ssh other@git.example.com true");
        refused(said, "a login to git.example.com as other; it is allowed as git");
    }
}

#[test]
fn a_login_whose_signature_names_no_host_key_is_refused_unless_the_settings_say_so() {
    for user in people_with_hosts("plain publickey") {
        let world = World::new(user);
        let script = "ssh -o PubkeyAuthentication=unbound git.example.com true";
        refused(world.inside(script), "set hostbound = false for it in config.toml");
        let config = world.stage.path("home/.config/pinfold/config.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replace("known", "hostbound = false, known")).unwrap();
        world.inside(script).succeeded();
        world.inside("ssh git.example.com true").succeeded();
    }
}

#[test]
fn a_forwarded_agent_signs_nothing() {
    for user in people_with_hosts("forwarding") {
        let world = World::new(user);
        let hop = world.stage.write("world/hop.sh", HOP);
        // The control: without pinfold both work.
        let ssh =
            format!("ssh-add -q ~/.ssh/id; {GULLIBLE} -A git@git.example.com sh {}", hop.display());
        let said = world.outside("ssh-agent", &["sh", "-c", &ssh]).succeeded();
        assert!(said.contains("BEGIN SSH SIGNATURE") && said.contains("HOPPED"), "{said}");
        let said = world.inside(&format!("ssh -A git.example.com sh {}", hop.display())).failed();
        assert!(!said.contains("HOPPED") && !said.contains("BEGIN SSH SIGNATURE"), "{said}");
        assert!(said.contains("the agent is not forwarded to SHA256:"), "{said}");
    }
}
