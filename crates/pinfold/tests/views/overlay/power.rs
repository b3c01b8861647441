//! A machine that was started again between a session and the look at it.

use std::fs;
use std::path::PathBuf;

use pinfold_testkit::{Stage, installed, people, skip};

use super::{LISTING, host, pinfold, sessions, work};

const BEFORE: &str = "echo a >a; echo g >g; mkdir d; echo f >d/f";
const CHANGES: &str = "echo x >>a; echo n >n; rm g; rm -r d; mkdir d; echo h >d/h; ln -s n link";

const COMMITTED: &str = "git init -q --template= -b main; git config user.name T; \
                         git config user.email t@example.org; git commit -q --allow-empty -m first";

/// Runs a session, and starts the machine again.
fn before_a_restart(stage: &Stage) -> PathBuf {
    host(stage, BEFORE);
    work(stage, CHANGES);
    restart(stage)
}

/// Lets the one session have started in another run of the kernel; gives the directory of its
/// changes.
fn restart(stage: &Stage) -> PathBuf {
    let review = stage.state().join("review").join(sessions(stage).remove(0));
    let record = fs::read(review.join("record")).unwrap();
    let mut record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_eq!(record["boot"], boot.trim());
    record["boot"] = "0a0b0c0d-0000-4000-8000-000000000000".into();
    // Disks have other numbers then, and some file systems always.
    record["inode"][0] = (record["inode"][0].as_u64().unwrap() + 1).into();
    fs::write(review.join("record"), record.to_string()).unwrap();
    review
}

#[test]
fn a_restart_keeps_nothing_from_being_taken_over() {
    for user in people() {
        let stage = Stage::new(user);
        before_a_restart(&stage);
        pinfold(&stage, &["apply", "a"]).unwrap();
        pinfold(&stage, &["apply"]).unwrap();
        assert_eq!(host(&stage, "ls; ls d; cat a n d/h"), "a\nd\nlink\nn\nh\na\nx\nn\nh\n");
    }
}

#[test]
fn commits_alone_outlive_a_restart() {
    if !installed("git") {
        return skip("commits_alone_outlive_a_restart", "it takes git");
    }
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, COMMITTED);
        work(&stage, "git commit -q --allow-empty -m inside");
        restart(&stage);
        pinfold(&stage, &["apply"]).unwrap();
        assert_eq!(host(&stage, "git log --format=%s"), "inside\nfirst\n");
    }
}

#[test]
fn of_a_layer_that_lost_something_in_a_power_failure_nothing_is_taken_over() {
    for user in people() {
        let damages = [
            // Delayed allocation: a name, and no content.
            (": >UPPER/n", "n is not"),
            ("echo y >UPPER/n", "n is not"),
            ("rm UPPER/a", "a is not"),
            ("rm UPPER/link", "link is not"),
            ("rm UPPER/g", "g is not"),
            ("rm UPPER/d/h", "d/h is not"),
            ("rm -r UPPER/d", "d"),
            ("rm UPPER/../../seen", "it was running then"),
        ];
        for (damage, why) in damages {
            let stage = Stage::new(user);
            let review = before_a_restart(&stage);
            let before = host(&stage, LISTING);
            let upper = review.join("layers/upper");
            host(&stage, &damage.replace("UPPER", &upper.to_string_lossy()));
            for words in [&["diff"][..], &["apply"]] {
                let stderr = pinfold(&stage, words).unwrap_err();
                assert!(
                    stderr.contains("is not whole") && stderr.contains(why),
                    "{damage}: {stderr}"
                );
                assert!(stderr.contains("/layers/upper; drop it"), "{damage}: {stderr}");
            }
            assert_eq!(host(&stage, LISTING), before, "{damage}");
            pinfold(&stage, &["discard"]).unwrap();
            assert_eq!(sessions(&stage), Vec::<String>::new(), "{damage}");
        }
    }
}
