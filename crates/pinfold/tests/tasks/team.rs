//! A queue in PostgreSQL that several machines share, as its users see it.

use std::process::{Command, Stdio};
use std::time::Duration;

use pinfold_testkit::{Postgres, find_bytes_in_tree, people, processes_with};
use rustix::process::Signal;

use crate::scene::{Scene, printed};

/// What logs in at the queue, and has to be nowhere else.
const CANARY: &str = "c4n4ry-0f-the-queue";

/// A command with the queue in a database.
fn shared(scene: &Scene, url: &str, args: &[&str]) -> Command {
    let mut command = scene.command(args);
    command.env("DATABASE_URL", url);
    command
}

fn good(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn add(scene: &Scene, url: &str, script: &str) -> String {
    good(&mut shared(scene, url, &["task", "add", "--agent", "script", "--brief", script]))
}

/// Returns the URL of a new database, with a password that the server does not ask for.
fn database(server: &Postgres) -> String {
    server.url(&server.database()).replace("pinfold@", &format!("pinfold:{CANARY}@"))
}

#[test]
fn tasks_of_a_team_are_added_worked_on_and_shown() {
    let Some(server) = Postgres::start("tasks_of_a_team") else { return };
    for user in people() {
        let scene = Scene::new(user);
        let url = database(&server);
        let id = add(&scene, &url, "echo right >answer");
        let listed = good(&mut shared(&scene, &url, &["task", "ls"]));
        assert!(listed.contains(&id[..8]) && listed.contains("queued"), "{listed}");
        // The queue of this machine knows nothing of it.
        assert!(printed(&scene.run(&["task", "ls"])).contains("no tasks"));
        let worked = shared(&scene, &url, &["work"]).output().unwrap();
        assert!(worked.status.success(), "{}", printed(&worked));
        assert!(printed(&worked).contains("the queue is in the database \"test"));
        let branch = format!("task/{}", &id[..8]);
        assert_eq!(scene.git(&["show", &format!("{branch}:answer")]), "right");
        let shown = good(&mut shared(&scene, &url, &["task", "show", &id[..8]]));
        assert!(shown.contains("completed") && shown.contains(&branch), "{shown}");
        let diff = good(&mut shared(&scene, &url, &["task", "diff", &id]));
        assert!(diff.contains("+right"), "{diff}");
        good(&mut shared(&scene, &url, &["task", "rm", &id]));
    }
}

/// Others who use the database can write what they like into it.
#[test]
fn row_of_others_is_no_option_of_git_and_drives_no_terminal() {
    let Some(server) = Postgres::start("row_of_others") else { return };
    for user in people() {
        let scene = Scene::new(user);
        let database_name = server.database();
        let url = server.url(&database_name);
        let id = add(&scene, &url, "echo right >answer");
        good(&mut shared(&scene, &url, &["work"]));
        let written = scene.stage.path("home/written");
        let lie = |statement: &str| server.sql(&database_name, statement);
        let output = lie("SELECT output FROM pinfold.attempt");
        let option = format!("--output={}", written.display());
        for name in ["base", "commit"] {
            let mut wrong: serde_json::Value = serde_json::from_str(&output).unwrap();
            wrong[name] = option.as_str().into();
            lie(&format!("UPDATE pinfold.attempt SET output = $${wrong}$$"));
            for command in ["diff", "apply", "show"] {
                let refused = shared(&scene, &url, &["task", command, &id]).output().unwrap();
                let said = printed(&refused);
                assert!(!refused.status.success() && said.contains("invalid result"), "{said}");
            }
            assert!(!written.exists());
        }
        lie(&format!("UPDATE pinfold.attempt SET output = $${output}$$"));
        let failure = r#"{"code":"a\u001b[31m","message":"b\u001b[31m"}"#;
        lie(&format!("UPDATE pinfold.attempt SET failure = $${failure}$$"));
        lie(&format!("UPDATE pinfold.task SET failure = $${failure}$$, title = E'c\\x1b[31m'"));
        for command in ["show", "diff"] {
            let shown = good(&mut shared(&scene, &url, &["task", command, &id]));
            assert!(!shown.contains('\u{1b}'), "{shown:?}");
        }
    }
}

/// Who can write to the queue can write a task. It gets what this worker's user allows, and nothing else.
#[test]
fn row_of_others_gets_only_what_the_worker_allows() {
    let Some(server) = Postgres::start("row_gets_only_what_is_allowed") else { return };
    for user in people() {
        let scene = Scene::new(user);
        scene.stage.write("sealed/sealed.sh", "grep -q right answer\n");
        scene.stage.write("ws/other/file", "other\n");
        let (sealed, other) = (scene.stage.path("sealed"), scene.stage.path("ws/other"));
        let (sealed, other) = (sealed.to_str().unwrap(), other.to_str().unwrap());
        let git = |args: &[&str]| {
            let mut git = scene.stage.command("git");
            let done = git.args(["-c", "user.name=A", "-c", "user.email=a@example.com"]).args(args);
            good(done.current_dir(other));
        };
        git(&["init", "-q"]);
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "base"]);
        let database_name = server.database();
        let url = server.url(&database_name);
        let add = |options: &[&str]| {
            let given = ["task", "add", "--agent", "script", "--brief", "echo right >answer"];
            good(&mut shared(&scene, &url, &[&given, options].concat()))
        };
        let code = |id: &str| {
            let shown = good(&mut shared(&scene, &url, &["task", "show", "--json", id]));
            let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
            (shown["failure"]["code"].as_str().unwrap_or_default().to_owned(), shown.to_string())
        };
        let work = || printed(&shared(&scene, &url, &["work"]).output().unwrap());
        let with_sealed = ["--sealed", sealed, "--verify", "sh sealed.sh", "--branch", "goal"];
        let refused = [
            add(&["--branch", "main"]),
            add(&["--sealed", sealed, "--verify", "sh sealed.sh"]),
            add(&["--identity", "owner"]),
            add(&["--group", "admins"]),
            add(&[]),
        ];
        let at = |id: &str, lie: &str| {
            let set = format!("UPDATE pinfold.spec SET content = {lie} WHERE task = '{id}'");
            server.sql(&database_name, &set);
        };
        let here = scene.repository();
        at(&refused[4], &format!("replace(content, '{}', '{other}')", here.display()));
        let widens = add(&[]);
        let policy = r#""task":{"policy":{"network":{"allow":["evil.test"]}},"#;
        at(&widens, &format!("replace(content, '\"task\":{{', '{policy}')"));
        let said = work();
        for id in &refused {
            let (code, shown) = code(id);
            assert_eq!(code, "not_allowed", "{shown}\n{said}");
            assert!(shown.contains("under [tasks]"), "{shown}");
        }
        let failure = format!("SELECT failure FROM pinfold.task WHERE id = '{widens}'");
        let failure = server.sql(&database_name, &failure);
        assert!(failure.contains("invalid_task") && failure.contains("only narrows"), "{failure}");
        assert_eq!(scene.left().0, ["main"]);
        let hash = good(&mut scene.command(&["task", "hash", sealed]));
        let rules =
            format!("[tasks]\nbranches = [\"goal\"]\n[tasks.sealed]\n\"{sealed}\" = \"{hash}\"\n");
        scene.stage.write("home/.config/pinfold/config.toml", rules);
        let allowed = add(&with_sealed);
        let said = work();
        assert_eq!(code(&allowed).0, "", "{said}");
        assert_eq!(scene.git(&["show", "goal:answer"]), "right");
        // What is sealed is what the worker's user looked at.
        scene.stage.write("sealed/sealed.sh", "exit 0\n");
        let changed = add(&with_sealed);
        let said = work();
        let (code, shown) = code(&changed);
        assert!(
            code == "not_allowed" && shown.contains("not what its hash says"),
            "{shown}\n{said}"
        );
    }
}

/// One row must not keep a user from all the others.
#[test]
fn row_that_cannot_be_read_is_shown_as_such_and_holds_up_no_other() {
    let Some(server) = Postgres::start("row_that_cannot_be_read") else { return };
    for user in people() {
        let scene = Scene::new(user);
        let database_name = server.database();
        let url = server.url(&database_name);
        let add = |name: &str| {
            let brief = format!("echo right >{name}");
            let file = format!("test -e {name}");
            let given = ["task", "add", "--agent", "script", "--brief", &brief, "--verify", &file];
            good(&mut shared(&scene, &url, &given))
        };
        let (first, second) = (add("one"), add("two"));
        good(&mut shared(&scene, &url, &["work"]));
        for wrong in ["''", "'{}'", r#"'{"brief": "x", "task": {"evil": 1}}'"#] {
            let set = format!("UPDATE pinfold.spec SET content = {wrong} WHERE task = '{second}'");
            server.sql(&database_name, &set);
            let shown = good(&mut shared(&scene, &url, &["task", "show", "--json", &second]));
            let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
            assert!(shown["error"].as_str().unwrap().contains("invalid task"), "{shown}");
            assert_eq!(shown["status"], "completed");
            let shown = good(&mut shared(&scene, &url, &["task", "show", &second]));
            assert!(shown.contains("unreadable: invalid task"), "{shown}");
            good(&mut shared(&scene, &url, &["task", "ls", "--json", "--all"]));
            good(&mut shared(&scene, &url, &["task", "logs", &second]));
        }
        let refused = shared(&scene, &url, &["task", "land", &second]).output().unwrap();
        assert!(!refused.status.success(), "{}", printed(&refused));
        assert!(printed(&refused).contains("cannot be read"), "{}", printed(&refused));
        good(&mut shared(&scene, &url, &["task", "land"]));
        assert_eq!(scene.git(&["show", "main:one"]), "right");
        let shown = good(&mut shared(&scene, &url, &["task", "show", "--json", &first]));
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert!(shown["error"].is_null() && shown["landing"]["state"] == "landed", "{shown}");
    }
}

/// Where work began is what a row says.
#[test]
fn row_of_others_moves_no_branch_and_no_checkout_but_what_its_user_means() {
    let Some(server) = Postgres::start("row_of_others_moves_no_branch") else { return };
    for user in people() {
        let scene = Scene::new(user);
        scene.stage.write("ws/other/file", "other\n");
        let other = scene.stage.path("ws/other");
        let git = |args: &[&str]| good(scene.stage.command("git").args(args).current_dir(&other));
        git(&["init", "-q"]);
        scene.git(&["branch", "release"]);
        let database_name = server.database();
        let url = server.url(&database_name);
        let given = ["task", "add", "--agent", "script", "--brief", "echo right >answer"];
        let given = [&given[..], &["--verify", "test -e answer"]].concat();
        let id = good(&mut shared(&scene, &url, &given));
        good(&mut shared(&scene, &url, &["work"]));
        let output = server.sql(&database_name, "SELECT output FROM pinfold.attempt");
        let mut lie: serde_json::Value = serde_json::from_str(&output).unwrap();
        lie["baseBranch"] = "release".into();
        server.sql(&database_name, &format!("UPDATE pinfold.attempt SET output = $${lie}$$"));
        let before = scene.git(&["rev-parse", "release"]);
        let refused = shared(&scene, &url, &["task", "land"]).output().unwrap();
        let said = printed(&refused);
        assert!(!refused.status.success() && said.contains("say --onto release"), "{said}");
        assert_eq!(scene.git(&["rev-parse", "release"]), before);
        // Applying starts git in a sandbox of the repository that the row names.
        let elsewhere = format!(
            "UPDATE pinfold.spec SET content = replace(content, '{}', '{}')",
            scene.repository().display(),
            other.display()
        );
        server.sql(&database_name, &elsewhere);
        for command in ["apply", "diff"] {
            let refused = shared(&scene, &url, &["task", command, &id]).output().unwrap();
            let said = printed(&refused);
            assert!(!refused.status.success() && said.contains("may not use repository"), "{said}");
        }
        let back = format!(
            "UPDATE pinfold.spec SET content = replace(content, '{}', '{}')",
            other.display(),
            scene.repository().display()
        );
        server.sql(&database_name, &back);
        good(&mut shared(&scene, &url, &["task", "land", "--onto", "release"]));
        assert_eq!(scene.git(&["show", "release:answer"]), "right");
    }
}

/// Each number of an attempt before is a branch to look for.
#[test]
fn number_of_an_attempt_that_others_wrote_takes_no_memory() {
    let Some(server) = Postgres::start("number_of_an_attempt") else { return };
    for user in people() {
        let scene = Scene::new(user);
        let database_name = server.database();
        let url = server.url(&database_name);
        let id = add(&scene, &url, "echo right >answer");
        let most = "attempts = 2000000000, max_attempts = 2100000000, allowance = 2100000000";
        server.sql(&database_name, &format!("UPDATE pinfold.task SET {most}"));
        good(&mut shared(&scene, &url, &["work"]));
        good(&mut shared(&scene, &url, &["task", "rm", &id]));
    }
}

/// A user who passes `DATABASE_URL` on to sandboxes does not pass the queue's on.
#[test]
fn login_of_the_queue_is_in_no_sandbox_log_or_argument() {
    let Some(server) = Postgres::start("login_of_the_queue") else { return };
    for user in people() {
        let scene = Scene::new(user);
        let settings =
            "forward_env = [\"DATABASE_URL\", \"PGPASSWORD\", \"PGPASSFILE\", \"OTHER\"]\n";
        scene.stage.write("home/.config/pinfold/config.toml", settings);
        let url = database(&server);
        let marker = format!("300{}.{}", std::process::id(), user.uid);
        let id = add(&scene, &url, &format!("env >environment; sleep {marker}; true"));
        let mut worker = shared(&scene, &url, &["work"]);
        worker.env("PGPASSWORD", CANARY).env("OTHER", "passes");
        let worker = worker.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let sleeps = format!("sleep\0{marker}");
        while processes_with(&sleeps).is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(processes_with(CANARY).is_empty(), "an argument has it");
        for pid in processes_with(&sleeps) {
            let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        let output = worker.wait_with_output().unwrap();
        assert!(!printed(&output).contains(CANARY), "{}", printed(&output));
        let environment = scene.git(&["show", &format!("task/{}:environment", &id[..8])]);
        assert!(environment.contains("OTHER=passes"), "{environment}");
        assert!(!environment.contains("DATABASE_URL") && !environment.contains(CANARY));
        let found = find_bytes_in_tree(scene.stage.base(), CANARY.as_bytes()).unwrap();
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn worker_outlives_a_crash_of_its_server_and_the_result_is_accepted() {
    let Some(mut server) = Postgres::start("worker_outlives_a_crash") else { return };
    let user = people().remove(0);
    let scene = Scene::new(user);
    let url = database(&server);
    let marker = format!("400{}", std::process::id());
    let id = add(&scene, &url, &format!("echo right >answer; sleep {marker}; true"));
    let worker = shared(&scene, &url, &["work"]).stderr(Stdio::piped()).spawn().unwrap();
    let sleeps = format!("sleep\0{marker}");
    while processes_with(&sleeps).is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    server.end(Signal::QUIT);
    let away = shared(&scene, &url, &["task", "ls"]).output().unwrap();
    let said = printed(&away);
    assert!(!away.status.success() && said.contains("cannot be used"), "{said}");
    assert!(said.contains("hint: ") && !said.contains(CANARY), "{said}");
    // The agent ends while the server is away.
    for pid in processes_with(&sleeps) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
    std::thread::sleep(Duration::from_secs(1));
    server.restart();
    let output = worker.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    let shown = good(&mut shared(&scene, &url, &["task", "show", &id[..8]]));
    assert!(shown.contains("completed"), "{shown}");
}

#[test]
fn settings_name_the_queue_before_the_environment_does_and_hold_no_password() {
    let Some(server) = Postgres::start("settings_name_the_queue") else { return };
    let user = people().remove(0);
    let scene = Scene::new(user);
    let (first, second) = (database(&server), server.url(&server.database()));
    add(&scene, &first, "true");
    let config = |database: &str| {
        let settings = format!("task_database = \"{database}\"\n");
        scene.stage.write("home/.config/pinfold/config.toml", settings);
        printed(&shared(&scene, &first, &["task", "ls"]).output().unwrap())
    };
    assert!(config(&second).contains("no tasks"));
    assert!(config("local").contains("no tasks"));
    let refused = config(&first);
    assert!(refused.contains("has a password") && !refused.contains(CANARY), "{refused}");
    let refused = config("mysql://db/x");
    assert!(refused.contains("does not begin with postgresql://"), "{refused}");
    scene.stage.write("home/.config/pinfold/config.toml", "");
    // One that is meant for another program.
    let other = shared(&scene, "mysql://db/x", &["task", "ls"]).output().unwrap();
    assert!(printed(&other).contains("no tasks"), "{}", printed(&other));
    let wrong = shared(&scene, "postgres://db/x?sslmode=prefer", &["task", "ls"]).output().unwrap();
    assert!(!wrong.status.success() && printed(&wrong).contains("does not protect"));
}
