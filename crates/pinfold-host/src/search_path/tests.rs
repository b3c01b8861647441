use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

/// Directories of a `PATH`, below a temporary one.
struct Scene {
    top: PathBuf,
    _directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        for name in ["work/bin", "bin", "more"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        Self { top, _directory: directory }
    }

    fn program(&self, path: &str, mode: u32) {
        fs::write(self.top.join(path), "#!/bin/sh\n").unwrap();
        fs::set_permissions(self.top.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Returns the search along these directories that leaves out `work`.
    fn search(&self, directories: &[&str]) -> SearchPath {
        let caller: Vec<PathBuf> = directories.iter().map(|it| self.top.join(it)).collect();
        SearchPath { caller, ..SearchPath::without(vec![self.top.join("work")]) }
    }
}

#[test]
fn directory_of_the_workspace_is_left_out_by_whatever_name() {
    let scene = Scene::new();
    symlink("work/bin", scene.top.join("link")).unwrap();
    for name in ["work/bin", "work/bin/", "bin/../work/bin", "link", "more/../link/."] {
        let search = scene.search(&[name, "bin"]);
        assert_eq!(search.value(), scene.top.join("bin").as_os_str(), "{name}");
    }
}

#[test]
fn program_is_not_found_by_a_link_to_or_through_the_workspace() {
    let scene = Scene::new();
    scene.program("work/bin/tool", 0o755);
    scene.program("more/tool", 0o755);
    let search = scene.search(&["bin", "more"]);
    let link = scene.top.join("bin/tool");
    symlink(scene.top.join("work/bin/tool"), &link).unwrap();
    assert_eq!(search.path_of("tool".as_ref()).unwrap(), scene.top.join("more/tool"));
    // It leads out again now, and elsewhere once the session wants it to.
    fs::remove_file(scene.top.join("work/bin/tool")).unwrap();
    symlink(scene.top.join("more/tool"), scene.top.join("work/bin/tool")).unwrap();
    assert_eq!(search.path_of("tool".as_ref()).unwrap(), scene.top.join("more/tool"));
    fs::remove_file(&link).unwrap();
    symlink("../more/tool", &link).unwrap();
    assert_eq!(search.path_of("tool".as_ref()).unwrap(), link, "as it is named");
    assert_eq!(search.find("tool").unwrap(), scene.top.join("more/tool"), "without links");
}

#[test]
fn script_is_not_found_if_its_first_line_names_something_in_the_workspace() {
    let scene = Scene::new();
    scene.program("work/bin/python", 0o755);
    scene.program("more/tool", 0o755);
    symlink(scene.top.join("work/bin"), scene.top.join("linked")).unwrap();
    let search = scene.search(&["bin", "more"]);
    let tool = scene.top.join("bin/tool");
    let write = |path: &Path, line: &str| {
        let top = scene.top.to_str().unwrap();
        fs::write(path, line.replace('$', top)).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    write(&scene.top.join("bin/between"), "#!$/work/bin/python\n");
    for line in [
        "#!$/work/bin/python\n",
        "#! \t$/work/bin/not-there -I",
        "#!$/linked/python\n",
        "#!bin/python\n",
        "#!$/bin/between\n",
        "#!/usr/bin/env $/work/bin/python\n",
        "#!/usr/bin/env -S PYTHONPATH=/usr/lib/x:$/work python3\n",
    ] {
        write(&tool, line);
        assert_eq!(search.path_of("tool".as_ref()).unwrap(), scene.top.join("more/tool"), "{line}");
    }
    for line in ["#!/bin/sh\n", "#!/usr/bin/env -S python3 -I\n", "#!/not/there\n", "no script\n"] {
        write(&tool, line);
        assert_eq!(search.path_of("tool".as_ref()).unwrap(), tool, "{line}");
    }
    // The kernel starts what nobody may read; root reads everything.
    if !rustix::process::geteuid().is_root() {
        write(&tool, "#!$/work/bin/python\n");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o111)).unwrap();
        assert_eq!(search.path_of("tool".as_ref()).unwrap(), scene.top.join("more/tool"));
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    }
    write(&tool, "#!$/work/bin/python\n");
    let error = scene.search(&["bin"]).path_of("tool".as_ref()).unwrap_err().to_string();
    let top = scene.top.display();
    let expected =
        format!("{top}/bin/tool begins with #! and {top}/work/bin/python, where a session");
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn what_cannot_be_executed_hides_no_program() {
    let scene = Scene::new();
    scene.program("bin/tool", 0o644);
    scene.program("more/tool", 0o755);
    let search = scene.search(&["bin", "more"]);
    assert_eq!(search.find("tool").unwrap(), scene.top.join("more/tool"));
}

#[test]
fn error_says_where_a_program_is_that_is_left_out() {
    let scene = Scene::new();
    scene.program("work/bin/tool", 0o755);
    let search = scene.search(&["work/bin", "bin"]);
    let error = search.path_of("tool".as_ref()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    let expected = format!("PATH leads to {}/work/bin/tool, where", scene.top.display());
    assert!(error.to_string().starts_with(&expected), "{error}");
    let found = search.find("tool").unwrap_err();
    assert_eq!(found.kind(), io::ErrorKind::PermissionDenied);
    assert!(found.to_string().starts_with(&expected), "{found}");
    // What pinfold looks for itself cannot be named otherwise.
    assert!(!found.to_string().contains("absolute") && error.to_string().contains("absolute"));
    let error = search.path_of("other".as_ref()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn program_that_is_started_gets_the_path_without_what_is_left_out() {
    let scene = Scene::new();
    let search = scene.search(&["work/bin", "bin", "missing"]);
    assert_eq!(search.value(), scene.top.join("bin").as_os_str());
    let question = crate::process::Question {
        interrupt: None,
        file: Path::new("/bin/sh"),
        name: Path::new("sh"),
        arguments: &["-c".to_owned(), "echo \"$PATH\"".to_owned()],
        input: b"",
        path: &search,
        bounds: crate::process::Bounds { patience: std::time::Duration::from_secs(60), most: 4096 },
    };
    let said = question.ask().unwrap().stdout;
    assert_eq!(String::from_utf8_lossy(&said), format!("{}/bin\n", scene.top.display()));
}

#[test]
fn variable_that_leads_to_the_workspace_is_refused() {
    let scene = Scene::new();
    let search = scene.search(&["bin"]);
    let top = scene.top.display().to_string();
    symlink("work/bin", scene.top.join("link")).unwrap();
    for value in ["TOP/work/config", "/etc/a:TOP/work/b", "unix://TOP/work/c", "TOP/link/missing"] {
        let error = search.check_variable("NAME", value.replace("TOP", &top).as_ref()).unwrap_err();
        assert!(error.to_string().starts_with("NAME leads to "), "{value}: {error}");
    }
    for value in ["TOP/bin/config", "https://proxy:8080", "", "1", "unix:///var/run/docker.sock"] {
        search.check_variable("NAME", value.replace("TOP", &top).as_ref()).unwrap();
    }
}
