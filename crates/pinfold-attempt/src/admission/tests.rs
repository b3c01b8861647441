use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use pinfold_policy::document::SettingsFile;
use pinfold_policy::settings::{Layers, Settings, TaskRules};
use pinfold_repository::digest_of_directory;
use pinfold_tasks::TaskSpec;

use super::Admission;

fn rules(text: &str) -> TaskRules {
    let user = SettingsFile { path: Path::new("config.toml"), bytes: text.as_bytes() };
    Settings::resolve(Layers { user: Some(user), ..Layers::default() }).unwrap().task_rules
}

/// Returns a machine with repositories `src/one` and `private`, and sealed tests.
fn machine() -> (tempfile::TempDir, Admission, String) {
    let machine = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(machine.path()).unwrap();
    for directory in ["src/one", "src-private", "private", "sealed", "other"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(root.join("sealed/test.sh"), "exit 1\n").unwrap();
    fs::write(root.join("other/secret"), "secret\n").unwrap();
    let hash = digest_of_directory(&root.join("sealed")).unwrap();
    let root = root.display().to_string();
    let rules = rules(&format!(
        "[tasks]\nrepositories = [\"{root}/src\"]\nbranches = [\"feature/*\", \"next\"]\n\
         identities = [\"bot\"]\ngroups = [\"crew\"]\n[tasks.sealed]\n\"{root}/sealed\" = \"{hash}\"\n"
    ));
    (machine, Admission::new(rules, None), root)
}

fn task(change: impl FnOnce(&mut TaskSpec)) -> TaskSpec {
    let mut task = TaskSpec::new("t", "b");
    change(&mut task);
    task
}

#[test]
fn task_within_the_rules_is_admitted() {
    let (_machine, admission, root) = machine();
    let spec = task(|task| {
        task.repository = Some(format!("{root}/src/one").into());
        task.branch = Some("feature/x".parse().unwrap());
        task.sealed = Some(format!("{root}/sealed").into());
        (task.identity, task.group) = (Some("bot".to_owned()), Some("crew".to_owned()));
    });
    assert_eq!(admission.admit(&spec).unwrap(), spec);
}

#[test]
fn task_beyond_the_rules_is_refused_with_the_setting() {
    let (machine, admission, root) = machine();
    symlink(format!("{root}/private"), machine.path().join("src/link")).unwrap();
    symlink(format!("{root}/other"), machine.path().join("sealed-link")).unwrap();
    let here = format!("{root}/src/one");
    let at = |path: &str| task(|task| task.repository = Some(format!("{root}/{path}").into()));
    let with = |change: &dyn Fn(&mut TaskSpec)| {
        task(|task| {
            task.repository = Some(here.clone().into());
            change(task);
        })
    };
    let cases = [
        ("repositories", task(|_| {})),
        ("repositories", at("private")),
        ("repositories", at("src-private")),
        ("repositories", at("src/link")),
        ("repositories", at("missing")),
        ("branches", with(&|task| task.branch = Some("main".parse().unwrap()))),
        ("branches", with(&|task| task.branch = Some("x/next".parse().unwrap()))),
        ("branches", with(&|task| task.branch = Some("feature/x/y".parse().unwrap()))),
        ("identities", with(&|task| task.identity = Some("owner".to_owned()))),
        ("groups", with(&|task| task.group = Some("admins".to_owned()))),
        ("sealed", with(&|task| task.sealed = Some(format!("{root}/other").into()))),
        ("sealed", with(&|task| task.sealed = Some(format!("{root}/sealed-link").into()))),
        ("sealed", with(&|task| task.sealed = Some("/".into()))),
    ];
    for (setting, spec) in cases {
        let refusal = admission.admit(&spec).unwrap_err();
        let said = format!("{refusal} {}", refusal.hint().unwrap_or("repositories"));
        assert!(said.contains(setting), "{spec:?}: {said}");
        // Whether a file exists, or what is in it, is not said.
        assert!(!said.contains("No such file") && !said.contains("sha256:"), "{said}");
    }
}

#[test]
fn sealed_files_that_changed_are_refused() {
    let (machine, admission, root) = machine();
    let spec = task(|task| {
        task.repository = Some(format!("{root}/src/one").into());
        task.sealed = Some(format!("{root}/sealed").into());
    });
    fs::write(machine.path().join("sealed/test.sh"), "exit 0\n").unwrap();
    let refusal = admission.admit(&spec).unwrap_err();
    assert!(refusal.to_string().contains("not what its hash says"), "{refusal}");
    fs::write(machine.path().join("sealed/test.sh"), "exit 1\n").unwrap();
    admission.admit(&spec).unwrap();
    fs::write(machine.path().join("sealed/more"), "").unwrap();
    admission.admit(&spec).unwrap_err();
}

#[test]
fn without_rules_only_the_repository_of_the_worker_is_admitted() {
    let machine = tempfile::tempdir().unwrap();
    let (here, other) = (machine.path().join("here"), machine.path().join("other"));
    fs::create_dir_all(here.join("below")).unwrap();
    fs::create_dir_all(&other).unwrap();
    let admission = Admission::new(TaskRules::default(), Some(&here));
    let at = |path: &Path| task(|task| task.repository = Some(path.to_owned()));
    admission.admit(&at(&here)).unwrap();
    admission.admit(&at(&other)).unwrap_err();
    admission.admit(&at(&here.join("below"))).unwrap_err();
}
