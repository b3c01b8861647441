use std::os::unix::fs::symlink;

use super::*;

#[test]
fn files_that_settings_of_directory_hooks_load_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let root = top.join("work");
    fs::create_dir_all(root.join("scripts")).unwrap();
    fs::create_dir(root.join("bin")).unwrap();
    fs::create_dir(root.join("modules")).unwrap();
    for name in [
        "y.sh",
        "scripts/z.sh",
        "env.py",
        "notes.sh",
        "watched.sh",
        "config.yaml",
        "bin/tool",
        "modules/run.py",
        "a name",
    ] {
        fs::write(root.join(name), "").unwrap();
    }
    fs::set_permissions(root.join("bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(root.join("scripts/x.sh"), "set -e\n. scripts/z.sh\n. ../work/y.sh").unwrap();
    symlink("scripts/x.sh", root.join("link")).unwrap();
    let found = |name: &str, text: &str| {
        fs::write(top.join(name), text).unwrap();
        let settings: &[PathBuf] = &[top.join(name)];
        let found = loaded(settings, &[], &|path| path.starts_with(&root));
        let below = |it: &PathBuf| it.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        found.iter().map(below).collect::<Vec<_>>()
    };
    let sourced = ["scripts/x.sh", "scripts/z.sh", "y.sh"];
    assert_eq!(found("work/.envrc", "source ./scripts/x.sh"), sourced);
    assert_eq!(found("work/.envrc", "[ -e x ] && . \"$PWD/scripts/x.sh\""), sourced);
    let linked = ["link", "scripts/x.sh", "scripts/z.sh", "y.sh"];
    assert_eq!(found("work/.envrc", "source_env link"), linked);
    assert_eq!(found(".envrc", "source work/y.sh"), ["y.sh"]);
    assert_eq!(found("work/.envrc", "source_env_if_exists .envrc.local"), [".envrc.local"]);
    assert_eq!(found("work/.envrc", "use flake"), ["flake.lock", "flake.nix"]);
    for together in
        ["source \"scripts\"'/x'.sh", "source scripts/\\\nx.sh", "source scripts/x\\.sh"]
    {
        let found = found("work/.envrc", together);
        assert!(
            sourced.iter().all(|it| found.iter().any(|found| found == it)),
            "{together}: {found:?}"
        );
    }
    let all = ["scripts", "scripts/x.sh", "scripts/z.sh", "y.sh"];
    for several in [
        "for f in scripts/[a-z].sh; do . $f; done",
        "use_x() { . scripts/$1.sh; }",
        "source scripts/{x,z}.sh",
    ] {
        let found = found("work/.envrc", several);
        assert!(all.iter().all(|it| found.iter().any(|found| found == it)), "{several}: {found:?}");
    }
    let code = "source $'scripts/\\x78.sh'";
    for (text, file) in [
        (code, "scripts/x.sh"),
        ("source $(printf 'scripts/%s.sh' x)", "scripts/x.sh"),
        ("export BASH_ENV=scripts/x.sh", "scripts/x.sh"),
        ("for f in $(find scripts -name '*.sh'); do . $f; done", "scripts/x.sh"),
        ("export PATH=$PWD/bin:$PATH\ntool", "bin/tool"),
        ("python3 -m modules.run", "modules/run.py"),
    ] {
        let found = found("work/.envrc", text);
        assert!(found.iter().any(|it| it == file), "{text}: {found:?}");
    }
    assert!(found("work/.envrc", "source a\\ name").contains(&"a name".to_owned()));
    assert_eq!(found("work/.envrc", "dotenv"), [".env"]);
    assert_eq!(found("work/.envrc", "eval \"$(python3 env.py)\""), ["env.py"]);
    let nothing = "# source y.sh\nexport A=config.yaml B=notes.sh\nwatch_file watched.sh\nPATH_add bin\nlayout python";
    assert_eq!(found("work/.envrc", nothing), Vec::<String>::new());
    assert_eq!(found("work/mise.toml", "[env]\n_.source = \"y.sh\""), ["y.sh"]);
    assert_eq!(found("work/mise.toml", "[env]\n_.file = ['.env.local']"), [".env.local"]);
    assert_eq!(
        found("work/mise.toml", "[env]\nA = 'config.yaml'\n[tools]\nnode = '20'"),
        Vec::<String>::new()
    );
    for (text, all) in [
        // A name that is put together, of what the file names elsewhere.
        (
            "dir=scripts; name=z.sh\nsource \"$dir/$name\"",
            ["dir", "name", "scripts/z.sh"].as_slice(),
        ),
        ("source \"$(expand_path scripts)/z.sh\"", &["expand_path", "scripts/z.sh"]),
        ("load() { source \"$1\"; }\nload config.yaml", &["1", "config.yaml"]),
        ("export FILE=config.yaml\nsource $FILE", &["FILE", "config.yaml"]),
        ("cd scripts; . ./z.sh", &["scripts/z.sh"]),
        ("PATH_add bin\ntool", &["bin/tool"]),
        // What is run or printed.
        ("bash config.yaml", &["config.yaml"]),
        ("eval \"$(cat config.yaml)\"", &["config.yaml"]),
        ("eval \"$(<config.yaml)\"", &["config.yaml"]),
        ("cat missing", &[]),
        // A pattern, and where new files would be meant.
        ("for file in bin/*ol; do source $file; done", &["bin", "bin/tool", "done", "file"]),
        ("source *.yaml", &["config.yaml"]),
        ("source 'a name'", &["a", "a name", "name"]),
        (&format!("{};source config.yaml", "export A=b;".repeat(3000)), &["config.yaml"]),
        ("# caf\u{e9}\nsource ${HOME}/config.yaml", &["config.yaml"]),
    ] {
        assert_eq!(found("work/.envrc", text), all, "{text}");
    }
    let text = "[tasks.x]\nrun = \"bash config.yaml $X; source $Y\"\n[env]\nB = 'config.yaml'";
    assert!(!found("work/mise.toml", text).contains(&"config.yaml".to_owned()));
    // A file that names itself.
    assert_eq!(found("work/y.sh", "source y.sh"), ["y.sh"]);
}

#[test]
fn file_is_changed_if_another_one_lies_there() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["old", "used"] {
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join("x"), "").unwrap();
    }
    let known = |path: PathBuf| (path.clone(), Moment::of(&path).ok());
    let loaded = vec![known(at("used/x")), known(at("missing"))];
    assert!(changed(&loaded).is_empty());
    // Neither file changes.
    fs::rename(at("used"), at("away")).unwrap();
    fs::rename(at("old"), at("used")).unwrap();
    assert_eq!(changed(&loaded), [&at("used/x")]);
    fs::write(at("missing"), "").unwrap();
    assert_eq!(changed(&loaded).len(), 2);
    // Nobody can say what lies there.
    fs::rename(at("used"), at("other")).unwrap();
    symlink("used", at("used")).unwrap();
    assert_eq!(changed(&loaded).len(), 2);
}

#[test]
fn settings_above_a_root_count() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("work");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("../.envrc"), "source_env work/env.sh").unwrap();
    let found = loaded(&[], std::slice::from_ref(&root), &|path| path.starts_with(&root));
    assert_eq!(found, [root.join("env.sh")].into());
}
