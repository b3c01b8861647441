use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use pinfold_agents::Registry;
use pinfold_policy::env::EnvName;
use serde_json::json;

use super::*;

/// The variables of a caller.
#[derive(Default)]
struct Variables(BTreeMap<&'static str, String>);

impl Host for Variables {
    fn variable(&self, name: &EnvName) -> Option<String> {
        self.0.get(name.as_str()).cloned()
    }

    fn file(&self, _: &Path) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

/// Returns where claude's files are, with this value of its variable.
fn sources(places: &Places, directory: Option<&Path>) -> Result<Sources, Refusal> {
    let variables = directory.map(|directory| directory.to_str().unwrap().to_owned());
    let host = Variables(variables.map(|value| ("CLAUDE_CONFIG_DIR", value)).into_iter().collect());
    let profile = Registry::default().load("claude").unwrap();
    Sources::find(&places.home, &places.home.join("ws"), &profile, &host)
}

/// Returns a home with files, and pinfold's own directories in it.
fn home(files: &[(&str, &str)]) -> (tempfile::TempDir, Places) {
    let home = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let at = |path: &str| home.path().join(path);
    let places = Places {
        home: home.path().to_owned(),
        config: at(".config/pinfold"),
        state: at(".local/state/pinfold"),
        cache: at(".cache/pinfold"),
    };
    (home, places)
}

fn copied(places: &Places, path: &str) -> (Vec<(String, String)>, Vec<String>) {
    copied_from(places, None, path)
}

fn copied_from(
    places: &Places,
    directory: Option<&Path>,
    path: &str,
) -> (Vec<(String, String)>, Vec<String>) {
    let mut left_out = Vec::new();
    let copier = Copier::new(places, sources(places, directory).unwrap());
    let copied = copier.copy(Path::new(path), &mut left_out);
    let files = copied.map(|copied| copied.files).unwrap_or_default().into_iter();
    let text = |(path, file): (PathBuf, copy::CopiedFile)| {
        (path.display().to_string(), String::from_utf8(file.content).unwrap())
    };
    (files.map(text).collect(), left_out)
}

#[test]
fn a_link_comes_in_where_the_user_makes_one_and_not_where_a_skill_does() {
    let (home, places) = home(&[
        ("dotfiles/CLAUDE.md", "mine"),
        ("dotfiles/skill/SKILL.md", "a skill"),
        ("diary.txt", "private"),
        (".claude/skills/other/SKILL.md", "of somebody else"),
    ]);
    let at = |path: &str| home.path().join(path);
    symlink(at("dotfiles/CLAUDE.md"), at(".claude/CLAUDE.md")).unwrap();
    symlink(at("dotfiles/skill"), at(".claude/skills/skill")).unwrap();
    symlink(at("diary.txt"), at(".claude/skills/other/notes.md")).unwrap();
    symlink("SKILL.md", at(".claude/skills/other/inner.md")).unwrap();
    symlink("../../diary.txt", at("dotfiles/skill/out.md")).unwrap();
    let (files, _) = copied(&places, ".claude/CLAUDE.md");
    assert_eq!(files, [(".claude/CLAUDE.md".to_owned(), "mine".to_owned())]);
    let (files, left_out) = copied(&places, ".claude/skills");
    let names: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        names,
        [
            ".claude/skills/other/SKILL.md",
            ".claude/skills/other/inner.md",
            ".claude/skills/skill/SKILL.md"
        ]
    );
    assert!(!files.iter().any(|(_, content)| content == "private"));
    assert_eq!(left_out.len(), 2, "{left_out:?}");
}

#[test]
fn links_of_a_repository_and_links_to_what_agents_keep_stay_out() {
    let (home, places) = home(&[
        (".claude.json", "a login"),
        (".claude/settings.json", "a token"),
        (".codex/config.toml", "a token"),
        ("Documents/diary.txt", "private"),
        (".claude/agents/.git/HEAD", "ref: refs/heads/main"),
        ("clone/.git/HEAD", "ref: refs/heads/main"),
        ("clone/skills/SKILL.md", "of a stranger"),
        (".claude/skills/own.md", "mine"),
    ]);
    let at = |path: &str| home.path().join(path);
    symlink("../../Documents/diary.txt", at(".claude/agents/diary.md")).unwrap();
    symlink("../../.claude.json", at(".claude/agents/notes.md")).unwrap();
    symlink("../../Documents", at("clone/skills/docs")).unwrap();
    symlink(at("clone/skills"), at(".claude/commands")).unwrap();
    for (number, target) in [".claude.json", ".claude/settings.json", ".codex"].iter().enumerate() {
        symlink(at(target), at(&format!(".claude/skills/{number}.md"))).unwrap();
    }
    symlink(at(".claude.json"), at(".claude/CLAUDE.md")).unwrap();
    assert!(copied(&places, ".claude/agents").0.is_empty());
    assert!(copied(&places, ".claude/CLAUDE.md").0.is_empty());
    let (files, _) = copied(&places, ".claude/commands");
    assert_eq!(files, [(".claude/commands/SKILL.md".to_owned(), "of a stranger".to_owned())]);
    let (files, left_out) = copied(&places, ".claude/skills");
    assert_eq!(files, [(".claude/skills/own.md".to_owned(), "mine".to_owned())]);
    assert_eq!(left_out.len(), 3, "{left_out:?}");
}

#[test]
fn a_variable_of_the_caller_moves_the_setup_and_the_usual_place_counts_no_more() {
    let (home, places) = home(&[
        (".claude/CLAUDE.md", "usual"),
        (".claude/skills/usual.md", "usual"),
        ("work/CLAUDE.md", "of work"),
        ("work/.claude.json", "{}"),
        ("work/.credentials.json", "hush"),
        ("dotfiles/skill.md", "mine"),
        ("work/skills/own.md", "own"),
    ]);
    let (at, work) = (|path: &str| home.path().join(path), home.path().join("work"));
    symlink(at("dotfiles/skill.md"), at("work/skills/linked.md")).unwrap();
    symlink(at("work/.credentials.json"), at("work/skills/login.md")).unwrap();
    symlink(at("work/.claude.json"), at("work/skills/state.md")).unwrap();
    let (files, _) = copied_from(&places, Some(&work), ".claude/CLAUDE.md");
    assert_eq!(files, [(".claude/CLAUDE.md".to_owned(), "of work".to_owned())]);
    let (files, left_out) = copied_from(&places, Some(&work), ".claude/skills");
    let names: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(names, [".claude/skills/linked.md", ".claude/skills/own.md"]);
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    let copier = Copier::new(&places, sources(&places, Some(&work)).unwrap());
    assert_eq!(copier.file(Path::new(".claude.json"), &mut Vec::new()).unwrap(), b"{}");
    assert_eq!(copier.variables(), ["CLAUDE_CONFIG_DIR"]);
    // One that is not there has nothing.
    let nowhere = at("nowhere");
    assert!(copied_from(&places, Some(&nowhere), ".claude/CLAUDE.md").0.is_empty());
}

#[test]
fn no_link_leads_out_of_a_moved_setup_that_somebody_else_may_have_written() {
    let (home, places) = home(&[
        ("diary.txt", "private"),
        ("clone/.git/HEAD", "ref: refs/heads/main"),
        ("clone/setup/skills/SKILL.md", "of a stranger"),
        (".claude/skills/x.md", "usual"),
    ]);
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir_all(elsewhere.path().join("skills")).unwrap();
    fs::write(elsewhere.path().join("skills/SKILL.md"), "of a stranger").unwrap();
    fs::write(elsewhere.path().join("secret"), "hush").unwrap();
    for directory in [elsewhere.path().to_owned(), home.path().join("clone/setup")] {
        let diary = home.path().join("diary.txt");
        symlink(&diary, directory.join("CLAUDE.md")).unwrap();
        symlink(&diary, directory.join("skills/diary.md")).unwrap();
        symlink("/etc/passwd", directory.join("skills/passwd.md")).unwrap();
        symlink("../secret", directory.join("skills/secret.md")).unwrap();
        symlink(home.path(), directory.join("commands")).unwrap();
        symlink(&diary, directory.join(".claude.json")).unwrap();
        for path in [".claude/CLAUDE.md", ".claude/commands"] {
            assert!(copied_from(&places, Some(&directory), path).0.is_empty(), "{path}");
        }
        let (files, _) = copied_from(&places, Some(&directory), ".claude/skills");
        assert_eq!(files, [(".claude/skills/SKILL.md".to_owned(), "of a stranger".to_owned())]);
        let copier = Copier::new(&places, sources(&places, Some(&directory)).unwrap());
        assert!(copier.file(Path::new(".claude.json"), &mut Vec::new()).is_none());
    }
}

#[test]
fn a_variable_that_names_what_others_may_write_to_is_refused() {
    let (home, places) = home(&[("ws/setup/CLAUDE.md", "x"), ("shared/CLAUDE.md", "x")]);
    let at = |path: &str| home.path().join(path);
    fs::set_permissions(at("shared"), fs::Permissions::from_mode(0o777)).unwrap();
    symlink(at("ws/setup"), at("link")).unwrap();
    for (directory, said) in [
        (at("ws/setup"), "a session in this workspace may write to"),
        (at("link"), "a session in this workspace may write to"),
        (at("shared"), "can be written by other users"),
        (PathBuf::from("setup"), "is not an absolute path"),
    ] {
        let refusal = sources(&places, Some(&directory)).unwrap_err();
        assert!(refusal.to_string().contains(said), "{refusal}");
        assert!(refusal.to_string().contains("CLAUDE_CONFIG_DIR") && refusal.hint().is_some());
    }
}

#[test]
fn a_workspace_below_a_moved_setup_brings_in_nothing_that_a_session_wrote() {
    // The workspace is `ws`: a skill that is being written, and a link to it.
    let (home, places) = home(&[("ws/SKILL.md", "of a session"), ("skills/own.md", "own")]);
    symlink(home.path().join("ws"), home.path().join("skills/ws")).unwrap();
    symlink(home.path().join("ws/SKILL.md"), home.path().join("CLAUDE.md")).unwrap();
    fs::create_dir(home.path().join("setup")).unwrap();
    symlink(home.path().join("skills"), home.path().join("setup/skills")).unwrap();
    symlink(home.path().join("ws/SKILL.md"), home.path().join("setup/CLAUDE.md")).unwrap();
    for directory in [home.path().join("setup"), home.path().to_owned()] {
        let (files, left_out) = copied_from(&places, Some(&directory), ".claude/skills");
        assert_eq!(files, [(".claude/skills/own.md".to_owned(), "own".to_owned())]);
        assert_eq!(left_out, [".claude/skills/ws (in the workspace)"]);
        assert!(copied_from(&places, Some(&directory), ".claude/CLAUDE.md").0.is_empty());
    }
}

#[test]
fn no_link_brings_a_secret_or_what_is_not_the_users() {
    let secrets = [
        ".aws/credentials",
        ".ssh/id_ed25519",
        ".claude/.credentials.json",
        ".codex/auth.json",
        ".config/gh/hosts.yml",
        ".config/pinfold/secrets/anthropic",
        ".local/state/pinfold/audit.jsonl",
        "project/.env",
        "keys/server.pem",
        ".bash_history",
    ];
    let all: Vec<(&str, &str)> = secrets.iter().map(|path| (*path, "hush")).collect();
    let (home, places) = home(&all);
    fs::create_dir_all(home.path().join(".claude/skills")).unwrap();
    let mut targets: Vec<PathBuf> = secrets.iter().map(|path| home.path().join(path)).collect();
    targets
        .extend(["/etc/passwd", "/proc/self/environ", "/dev/zero", "/nowhere"].map(PathBuf::from));
    for directory in [".aws", ".ssh", ".config/pinfold", ".config/gh", "."] {
        targets.push(home.path().join(directory));
    }
    for (number, target) in targets.iter().enumerate() {
        let link = home.path().join(format!(".claude/skills/{number}.md"));
        symlink(target, &link).unwrap();
        symlink(target, home.path().join(format!("{number}.md"))).unwrap();
        assert!(copied(&places, &format!("{number}.md")).0.is_empty(), "{}", target.display());
    }
    let (files, _) = copied(&places, ".claude/skills");
    assert!(files.is_empty(), "{files:?}");
}

#[test]
fn secrets_among_skills_and_what_is_no_file_stay_out() {
    let (home, places) = home(&[
        (".claude/skills/a/SKILL.md", "a"),
        (".claude/skills/a/.env", "hush"),
        (".claude/skills/a/token.pem", "hush"),
        (".claude/skills/a/.git/config", "hush"),
    ]);
    let fifo = home.path().join(".claude/skills/a/fifo");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let (files, left_out) = copied(&places, ".claude/skills");
    assert_eq!(files, [(".claude/skills/a/SKILL.md".to_owned(), "a".to_owned())]);
    assert_eq!(left_out.len(), 3, "{left_out:?}");
}

#[test]
fn a_huge_tree_stays_out_as_a_whole() {
    let (home, places) = home(&[(".claude/skills/a/SKILL.md", "a")]);
    let big = fs::File::create(home.path().join(".claude/skills/a/big")).unwrap();
    big.set_len(1 << 40).unwrap();
    let (files, left_out) = copied(&places, ".claude/skills");
    assert!(files.is_empty());
    assert_eq!(left_out, [".claude/skills (more than 16 MiB)"]);
    fs::remove_file(home.path().join(".claude/skills/a/big")).unwrap();
    for number in 0..2001 {
        fs::write(home.path().join(format!(".claude/skills/a/{number}")), "").unwrap();
    }
    assert_eq!(copied(&places, ".claude/skills").1, [".claude/skills (more than 2000 files)"]);
    symlink(".", home.path().join(".claude/commands")).unwrap();
    let (files, _) = copied(&places, ".claude/commands");
    assert!(files.is_empty(), "a link to what is above it ends");
}

#[test]
fn servers_come_in_without_secrets_and_these_are_named() {
    let servers = json!({
        "github": {
            "command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"],
            "env": {"GITHUB_TOKEN": "ghp_0123456789abcdef", "HOST": "${GH_HOST}"}
        },
        "remote": {
            "type": "http", "url": "https://mcp.example.com/sse",
            "headers": {"Authorization": "Bearer hush", "X-Key": "${API_KEY}"},
            "oauth": {"clientSecret": "hush"}
        },
        "a": {"command": "x", "args": ["--api-key", "hush"]},
        "b": {"command": "x", "args": ["--token=hush"]},
        "c": {"command": "x", "args": ["postgres://me:hush@db/x"]},
        "d": {"url": "https://x.example/?key=hush"},
        "e": {"url": "https://x.example/s/a1b2c3d4e5f6a7b8c9d0e1/mcp"},
        "f": {"command": "sh", "args": ["-c", "API_KEY=hush exec x"]},
        "g": {"command": "x", "args": ["sk-ant-api03-hushhush"]},
        "h": {"command": "x", "args": ["123e4567-e89b-12d3-a456-426614174000"]},
        "i": {"command": ["x", {"hush": 1}]},
        "j": "hush",
        "k": {"command": "x", "args": ["--api-key", "${API_KEY}"]}
    });
    let serde_json::Value::Object(servers) = servers else { panic!("no object") };
    let mut left_out = Vec::new();
    let cleaned = servers::clean(servers, &mut left_out);
    let text = serde_json::to_string(&cleaned).unwrap();
    assert!(!text.contains("hush") && !text.contains("ghp_"), "{text}");
    assert_eq!(cleaned.keys().collect::<Vec<_>>(), ["github", "k", "remote"]);
    assert_eq!(cleaned["github"]["env"], json!({"HOST": "${GH_HOST}"}));
    assert_eq!(cleaned["remote"]["headers"], json!({"X-Key": "${API_KEY}"}));
    let said = left_out.join("; ");
    for part in ["env GITHUB_TOKEN of github", "headers Authorization of remote", "oauth of remote"]
    {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("hush"), "{said}");
}

#[test]
fn a_key_goes_into_a_generated_file_or_one_of_its_own() {
    let path = InsidePath::new(Path::new(HOME).join("a/config.toml")).unwrap();
    let content = b"model = \"m\"\n[tui]\nx = 1\n".to_vec();
    let place = Place::File { content, mode: 0o600, keep: false };
    let mut files = vec![Entry { path, place }];
    let put = |files: &mut Vec<Entry>, into: &str, key: &str, value| {
        merge::put(files, Path::new(into), key, value, merge::Made::Once).unwrap();
    };
    put(&mut files, "a/config.toml", "tui.theme", json!("dark"));
    put(&mut files, "a/config.toml", "mcp_servers", json!({"x": {"command": "c", "args": ["a"]}}));
    put(&mut files, "a/new.json", "ui.theme", json!("dark"));
    let text = |at: usize| match &files[at].place {
        Place::File { content, .. } => String::from_utf8(content.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    let whole: toml::Table = toml::from_str(&text(0)).unwrap();
    assert_eq!(whole["tui"]["theme"].as_str(), Some("dark"));
    assert_eq!(whole["tui"]["x"].as_integer(), Some(1));
    assert_eq!(whole["mcp_servers"]["x"]["command"].as_str(), Some("c"));
    assert_eq!(text(1), "{\"ui\":{\"theme\":\"dark\"}}");
    let value = merge::value(Path::new("x.json"), b"{ // mine\n}", "theme");
    assert!(value.is_err());
}

#[test]
fn every_built_in_profile_lists_no_login() {
    let protection = pinfold_names::Protection::default();
    let registry = pinfold_agents::Registry::default();
    for name in registry.names() {
        let mine = registry.load(&name).unwrap().my_config;
        for path in mine.read {
            assert!(protection.refuses(&Path::new("/home/x").join(&path)).is_none(), "{path:?}");
            let text = path.to_string_lossy();
            assert!(
                !["auth", "credential", "settings", "hooks"].iter().any(|word| text.contains(word))
            );
        }
    }
}

#[test]
fn servers_whose_arguments_hold_a_secret_anywhere_stay_out() {
    for args in [
        json!(["run", "--env=API_KEY=hush-one"]),
        json!(["--header=X-Api-Key: hush-three"]),
        json!(["--dsn", "host=db user=me password=hush-two"]),
        json!(["-c", "FOO=1 API_TOKEN=hush-five srv"]),
        json!(["-p", "hush-four"]),
        json!(["-phush-four"]),
        json!(["--password", "hush-six"]),
    ] {
        let servers = json!({ "one": { "command": "srv", "args": args } });
        let serde_json::Value::Object(servers) = servers else { unreachable!() };
        let cleaned = servers::clean(servers, &mut Vec::new());
        assert!(cleaned.is_empty(), "{cleaned:?}");
    }
    for args in [
        json!(["-p", "8080:3000", "--env=API_KEY=$API_KEY", "--name=files", "C:/data"]),
        json!(["-y", "@scope/server", "https://example.org/mcp"]),
    ] {
        let servers = json!({ "one": { "command": "srv", "args": args } });
        let serde_json::Value::Object(servers) = servers else { unreachable!() };
        assert_eq!(servers::clean(servers, &mut Vec::new()).len(), 1);
    }
}
