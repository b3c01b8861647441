//! The tools in every way that a session can have its workspace.

use pinfold_client::api::{FilesEdit, FilesWrite};
use pinfold_testkit::{Stage, people};
use pinfold_tools::{Edit, Replacement, Write};

use super::Served;

fn repository(stage: &Stage) {
    stage.write("ws/kept.txt", "one two\n");
    let script = "git init -q && git add kept.txt && git -c user.name=n -c user.email=n@example.com \
                  commit -qm one";
    assert!(stage.command("/bin/sh").args(["-c", script]).status().unwrap().success());
}

#[test]
fn a_file_is_read_edited_and_written_in_every_workspace_mode() {
    let modes: [&[&str]; 4] = [
        &["--workspace", "shared_mount"],
        &["--workspace", "overlay"],
        &["--workspace", "scratch_mount"],
        &["--workspace", "dedicated_worktree", "--worktree-branch", "side"],
    ];
    for user in people() {
        for mode in modes {
            let stage = Stage::new(user);
            repository(&stage);
            let served = Served::new(&stage);
            let session = served.start(mode);
            if served.read(&session, "kept.txt").is_err() {
                assert_eq!(mode[1], "scratch_mount", "only that has nothing");
                served.shell(&session, "echo one two > kept.txt");
            }
            let old = Replacement { old: "two".to_owned(), new: "2".to_owned(), all: false };
            let edit = Edit { path: "kept.txt".into(), edits: vec![old] };
            let session = || session.clone();
            let edited = served.client.call(&FilesEdit { session: session(), edit });
            assert!(edited.is_ok(), "{mode:?}: {edited:?}");
            assert_eq!(served.read(&session(), "kept.txt").unwrap(), "one 2\n".into(), "{mode:?}");
            for (path, created) in [("kept.txt", false), ("new/file.txt", true)] {
                let write = Write { path: path.into(), parents: true, new: false };
                let write = FilesWrite { session: session(), write, content: "all\n".into() };
                let written = served.client.call(&write);
                assert_eq!(written.map(|stat| stat.created).ok(), Some(created), "{mode:?}");
            }
            let (_, seen) = served.shell(&session(), "cat kept.txt new/file.txt");
            assert_eq!(seen, "all\nall\n", "{mode:?}");
            served.end();
        }
    }
}
