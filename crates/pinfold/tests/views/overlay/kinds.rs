//! Everything that a file system can hold comes out as it was in the view.

use pinfold_testkit::{LS_FAILS, Stage, installed, not_behind_gvisor, people, skip};

use super::{LISTING, host, pinfold, sessions, work};

/// What the host has at the start.
const BEFORE: &str = "
    printf 'one\\n' >file; printf 'two\\n' >gone; printf '#!/bin/sh\\n' >script; chmod 755 script
    ln -s file link; mkdir -p tree/deep/deeper emptied old; echo x >tree/deep/x; echo y >tree/y
    echo z >tree/deep/deeper/z; echo e >emptied/e; echo o >old/o; echo m >mode; echo b >becomes
    mkdir turned; echo t >turned/t; echo l >linked; ln linked linked2; mkdir locked; : >empty
    echo s >same";

/// What the session does.
const CHANGES: &str = "
    echo more >>file; rm gone; chmod 640 mode; chmod 644 script; ln -sfn elsewhere/out link
    rm -r tree; mkdir tree; echo new >tree/y; rm emptied/e; rmdir emptied
    mkdir -p a/b/c; echo c >a/b/c/c; mkdir nothing; mkdir -m 700 private; echo p >private/p
    rm becomes; mkdir becomes; echo in >becomes/in; rm -r turned; echo file >turned
    mv old/o moved; rmdir old; cp -a file copied; ln copied hard; ln copied a/hard
    echo l2 >>linked2; printf 'no newline' >a/text; printf 'a\\0b' >binary; : >void
    mkdir readonly; echo r >readonly/r; chmod 500 readonly; chmod 700 locked
    touch same; truncate -s 8M sparse; printf end >>sparse; rm empty
    name=$(printf 'odd \\n\\033[2J\\377\"\\\\name'); echo odd >\"$name\"; echo d >-dash; ln -s \"$name\" odd-link";

#[test]
fn applied_the_workspace_is_what_the_view_was() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, BEFORE);
        let before = host(&stage, LISTING);
        let view = work(&stage, &format!("{CHANGES}\n{LISTING}"));
        assert_eq!(host(&stage, LISTING), before, "the session reached the workspace");
        // The odd name waits otherwise.
        let (_, stderr) = pinfold(&stage, &["apply", "--protected"]).unwrap();
        assert_eq!(host(&stage, LISTING), view, "{stderr}");
        assert_eq!(sessions(&stage), Vec::<String>::new(), "{stderr}");
        assert_eq!(host(&stage, "stat -c %h hard copied a/hard linked"), "3\n3\n3\n1\n");
        let blocks: u64 = host(&stage, "stat -c %b sparse").trim().parse().unwrap();
        assert!(blocks < 1024, "a file of holes takes {blocks} blocks");
    }
}

#[test]
fn a_part_can_be_applied_and_the_rest_later() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, BEFORE);
        let view = work(&stage, &format!("{CHANGES}\n{LISTING}"));
        pinfold(&stage, &["apply", "a/b", "tree", "file"]).unwrap();
        assert_eq!(
            host(&stage, "cat a/b/c/c tree/y file; ls tree a"),
            "c\nnew\none\nmore\na:\nb\n\ntree:\ny\n"
        );
        let (rest, _) = pinfold(&stage, &["diff", "--name-only"]).unwrap();
        assert!(!rest.contains("tree") && !rest.lines().any(|line| line == "file"), "{rest}");
        assert!(rest.lines().any(|line| line == "a/text"), "{rest}");
        pinfold(&stage, &["apply", "--protected"]).unwrap();
        assert_eq!(host(&stage, LISTING), view);
        assert_eq!(sessions(&stage), Vec::<String>::new());
    }
}

#[test]
fn attributes_of_users_come_along() {
    if not_behind_gvisor(
        "attributes_of_users_come_along",
        "gVisor of 2022 has no extended attributes of the host's files",
    ) {
        return;
    }
    if !installed("python3") {
        return skip("attributes_of_users_come_along", "it takes python3");
    }
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, "echo a >a; mkdir d");
        let set = "import os; os.setxattr('a', 'user.note', b'x' * 3000); os.setxattr('d', 'user.d', b'1')";
        work(&stage, &format!("python3 -c \"{set}\""));
        assert_eq!(pinfold(&stage, &["diff", "--name-only"]).unwrap().0, "a\nd\n");
        pinfold(&stage, &["apply"]).unwrap();
        let get = "import os; print(len(os.getxattr('a', 'user.note')), os.listxattr('a'), os.listxattr('d'))";
        let found = host(&stage, &format!("python3 -c \"{get}\""));
        assert_eq!(found, "3000 ['user.note'] ['user.d']\n");
    }
}

#[test]
fn files_keep_their_owner() {
    if not_behind_gvisor("files_keep_their_owner", LS_FAILS) {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, "echo a >a; mkdir d");
        // For root the workspace may belong to somebody else.
        let owner = if user.is_root() { people().last().copied().unwrap() } else { user };
        for path in ["ws", "ws/a", "ws/d"] {
            std::os::unix::fs::lchown(stage.path(path), Some(owner.uid), Some(owner.gid)).unwrap();
        }
        work(&stage, "echo b >>a; echo n >d/n; mkdir e; ln -s a l; ls -ln a | grep -q ' '");
        pinfold(&stage, &["apply"]).unwrap();
        let owners = host(&stage, "stat -c %u:%g a d d/n e l | sort -u");
        assert_eq!(owners, format!("{}:{}\n", owner.uid, owner.gid));
    }
}

#[test]
fn applied_file_is_newer_than_earlier_builds() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, "echo a >source");
        work(&stage, "echo b >source; touch -d 2001-01-01 source");
        host(&stage, "touch product");
        pinfold(&stage, &["apply"]).unwrap();
        host(&stage, "test source -nt product; test \"$(stat -c %h source)\" = 1");
    }
}

#[test]
fn a_session_that_changes_nothing_leaves_nothing() {
    for user in people() {
        let stage = Stage::new(user);
        host(&stage, BEFORE);
        work(
            &stage,
            "cat file; touch same; chmod 600 mode; chmod 644 mode; echo x >n; rm n; mv gone g; mv g gone",
        );
        assert_eq!(sessions(&stage), Vec::<String>::new());
        let failed = stage.run(&["--workspace", "overlay"], &["no-such-command"]);
        assert_eq!(failed.status.code(), Some(127));
        assert_eq!(sessions(&stage), Vec::<String>::new());
    }
}

#[test]
fn the_path_of_a_workspace_may_hold_anything() {
    for user in people() {
        let stage = Stage::new(user);
        let odd = stage.write("ws/a,b:c \\ d\ne\"'$x/file", "one\n");
        let run = |args: &[&str]| {
            let output = stage.pinfold(args).current_dir(odd.parent().unwrap()).output().unwrap();
            assert!(output.status.success(), "{}", super::errors(&output));
        };
        run(&["run", "--workspace", "overlay", "--", "sh", "-c", "echo two >>file"]);
        run(&["apply"]);
        assert_eq!(std::fs::read_to_string(&odd).unwrap(), "one\ntwo\n");
    }
}

#[test]
fn file_in_a_closed_directory_is_applied_and_the_directory_is_closed_again() {
    for user in people() {
        let stage = Stage::new(user);
        host(
            &stage,
            "mkdir -p kept/sub gone/sub; echo a >kept/a; echo b >kept/b; echo c >gone/sub/c; chmod 500 kept/sub kept gone/sub gone",
        );
        work(
            &stage,
            "chmod -R u+w kept gone; echo x >>kept/a; rm kept/b; echo n >kept/sub/n; chmod 500 kept/sub kept; rm -r gone",
        );
        pinfold(&stage, &["apply"]).unwrap();
        assert_eq!(host(&stage, "ls; ls kept; cat kept/a kept/sub/n"), "kept\na\nsub\na\nx\nn\n");
        assert_eq!(host(&stage, "stat -c %a kept kept/sub; chmod -R u+w kept"), "500\n500\n");
        assert_eq!(sessions(&stage), Vec::<String>::new());
    }
}

#[test]
fn a_list_of_who_may_use_a_file_stays_its_own() {
    if !installed("setfacl") {
        return skip("a_list_of_who_may_use_a_file", "it takes setfacl");
    }
    for user in people().into_iter().filter(|user| !user.is_root()) {
        let stage = Stage::new(user);
        host(&stage, "echo a >listed; setfacl -m u:daemon:rw listed; cp -p listed replaced");
        work(
            &stage,
            "echo b >>listed; setfacl -b listed; chmod 664 listed; cp replaced new; echo b >>new; chmod 664 new; mv new replaced",
        );
        pinfold(&stage, &["apply"]).unwrap();
        // The group's bits of the mode are the most that the list gives, and not what it has.
        for name in ["listed", "replaced"] {
            let list = host(&stage, &format!("cat {name}; getfacl -c {name} 2>/dev/null"));
            let wanted = "a\nb\nuser::rw-\nuser:daemon:rw-\ngroup::r--\nmask::rw-\nother::r--\n\n";
            assert_eq!(list, wanted, "{name}");
        }
    }
}

#[test]
fn a_list_that_names_others_keeps_root_from_changing_a_file() {
    let root = people().into_iter().find(|user| user.is_root());
    let Some(root) = root.filter(|_| installed("setfacl")) else {
        return skip("a_list_that_names_others", "it takes root and setfacl");
    };
    let stage = Stage::new(root);
    host(&stage, "echo a >listed; setfacl -m u:daemon:rw listed; echo a >plain");
    let stderr = super::errors(&super::session(&stage, "echo b >>plain; echo b >>listed"));
    assert!(stderr.contains("listed: Invalid argument"), "{stderr}");
    pinfold(&stage, &["apply"]).unwrap();
    assert_eq!(host(&stage, "cat listed plain"), "a\na\nb\n");
}

#[test]
fn group_that_a_view_does_not_have_is_reported() {
    let Some(user) = people().into_iter().find(|user| !user.is_root()) else { return };
    if !rustix::process::geteuid().is_root() {
        return skip("a_group_that_a_view_does_not_have", "it takes root");
    }
    let stage = Stage::new(user);
    stage.write("ws/file", "a\n");
    std::os::unix::fs::chown(stage.workspace(), None, Some(1)).unwrap();
    std::os::unix::fs::chown(stage.path("ws/file"), None, Some(1)).unwrap();
    let output = super::session(&stage, "chmod 700 .; echo x >>file");
    let stderr = super::errors(&output);
    assert!(
        stderr.contains("is of group 1, which is not the one") && stderr.contains("EOVERFLOW"),
        "{stderr}"
    );
    assert!(stderr.contains("Value too large"), "{stderr}");
    assert!(stderr.contains("the mode of the workspace itself stays"), "{stderr}");
}
