//! Attacks by those who can write to a shared queue on the branches of its other users.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output};

use pinfold_testkit::{Postgres, people};
use serde_json::Value;

use crate::scene::{Scene, printed};

const ADD: [&str; 4] = ["task", "add", "--agent", "script"];

/// A queue that others write to.
struct Shared<'a> {
    scene: &'a Scene,
    server: &'a Postgres,
    database: String,
}

impl<'a> Shared<'a> {
    fn new(scene: &'a Scene, server: &'a Postgres) -> Self {
        Self { scene, server, database: server.database() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.scene.command(args);
        command.env("DATABASE_URL", self.server.url(&self.database));
        command
    }

    fn add(&self, script: &str, options: &[&str]) -> String {
        let output = self.command(&[&ADD[..], &["--brief", script], options].concat()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", printed(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn work(&self) -> String {
        printed(&self.command(&["work"]).output().unwrap())
    }

    /// Works until the worker dies, just before it moves the branch of a result.
    fn work_and_die(&self) -> Output {
        let git = "#!/bin/sh\ncase \"$*\" in *.attempt-*|*.verify-*) ;; *update-ref*refs/heads/task/*) \
                   kill -9 $PPID; exit 1 ;; esac\nexec /usr/bin/git \"$@\"\n";
        let program = self.scene.stage.write("deadly/git", git);
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let path = format!("{}:/usr/bin:/bin", self.scene.stage.path("deadly").display());
        self.command(&["work"]).env("PATH", path).output().unwrap()
    }

    fn sql(&self, statement: &str) -> String {
        self.server.sql(&self.database, statement)
    }
}

#[test]
fn row_of_a_killed_workers_result_moves_and_removes_no_other_branch() {
    let Some(server) = Postgres::start("row_of_a_killed_workers_result") else { return };
    for user in people() {
        for lie in ["branch", "attemptBranch", "commit"] {
            let scene = Scene::new(user);
            let shared = Shared::new(&scene, &server);
            let id = shared.add("echo right >answer", &[]);
            let killed = shared.work_and_die();
            assert_eq!(killed.status.signal(), Some(9), "{}", printed(&killed));
            let mut output: Value =
                serde_json::from_str(&shared.sql("SELECT output FROM pinfold.attempt")).unwrap();
            let result = output["commit"].as_str().unwrap().to_owned();
            scene.git(&["branch", "release"]);
            scene.git(&["branch", "own", &result]);
            scene.git(&["checkout", "-q", "-b", "other"]);
            scene.git(&["commit", "-q", "--allow-empty", "-m", "not of the task"]);
            let other = scene.git(&["rev-parse", "other"]);
            output[lie] = match lie {
                "branch" => "release".into(),
                "attemptBranch" => "own".into(),
                _ => other.as_str().into(),
            };
            shared.sql(&format!("UPDATE pinfold.attempt SET output = $${output}$$"));
            let before = scene.git(&["rev-parse", "release", "own", "main", "other"]);
            let said = shared.work();
            let after = scene.git(&["rev-parse", "release", "own", "main", "other"]);
            assert_eq!(after, before, "{lie}: {said}");
            let (branches, _) = scene.left();
            let attempt = format!("task/{}.attempt-1", &id[..8]);
            assert!(branches.contains(&attempt), "{lie}: {branches:?}\n{said}");
            assert!(!branches.contains(&format!("task/{}", &id[..8])), "{lie}: {branches:?}");
            assert!(said.contains(&format!("the result is on branch {attempt}")), "{lie}: {said}");
            let said = shared.work();
            assert!(!said.contains("note:"), "it is said once: {said}");
        }
    }
}

/// Branches are called after the first digits of an id, and others choose the ids of their rows.
#[test]
fn row_with_an_id_like_another_one_does_not_move_the_branch_of_that_task() {
    let Some(server) = Postgres::start("row_with_an_id_like_another") else { return };
    for user in people() {
        let scene = Scene::new(user);
        let own = scene.add("echo right >answer", &[]);
        scene.work();
        let branch = format!("task/{}", &own[..8]);
        let result = scene.git(&["rev-parse", &branch]);
        let shared = Shared::new(&scene, &server);
        let evil = shared.add("echo evil >answer", &["--base", &branch]);
        let alike = format!("{}{}", &own[..8], &evil[8..]);
        let statements = [
            "ALTER TABLE pinfold.spec DROP CONSTRAINT spec_task_fkey".to_owned(),
            format!("UPDATE pinfold.spec SET task = '{alike}'"),
            format!("UPDATE pinfold.task SET id = '{alike}'"),
        ];
        statements.iter().for_each(|statement| drop(shared.sql(statement)));
        let said = shared.work();
        assert_eq!(scene.git(&["rev-parse", &branch]), result, "{said}");
        assert!(said.contains(&format!("the result is on branch {branch}.attempt-1")), "{said}");
    }
}
