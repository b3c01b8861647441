//! Trust in groups.

use super::*;
use crate::network::{Endpoint, Repository};

const TOKEN: &str = "group = \"a\"\n[[secrets]]\nid = \"t\"\nenv = \"GH_TOKEN\"\n\
    hosts = [\"*.github.com\", \"github.com\"]\n";
const ADMIN: &str = "group = \"a\"\n[groups.a]\ntrust = \"admin\"\n[[secrets]]\nid = \"t\"\n\
    env = \"GH_TOKEN\"\nhosts = [\"api.github.com\"]\n";
const OWN: &str = "[[secrets]]\nid = \"t\"\nenv = \"GH_TOKEN\"\nhosts = [\"github.com\"]\n";

#[test]
fn a_token_for_github_is_for_admins_and_for_sessions_of_no_group() {
    let member = "group_trust = \"member\"";
    for (ceiling, user, brokered, hint) in [
        ("", TOKEN, true, true),
        ("", ADMIN, false, false),
        ("", OWN, false, false),
        (member, TOKEN, true, true),
        (member, OWN, true, false),
        ("group_trust = \"admin\"", ADMIN, false, false),
        (
            "",
            "group = \"a\"\n[[secrets]]\nid = \"t\"\nenv = \"T\"\nhosts = [\"a.com\"]\n",
            false,
            false,
        ),
    ] {
        let settings = Case { ceiling, user, ..Case::default() }.resolve().unwrap();
        let policy = &settings.network;
        assert_eq!(policy.brokered.len(), usize::from(brokered), "{ceiling} {user}");
        assert_eq!(policy.allow.is_empty(), brokered, "{ceiling} {user}");
        assert_eq!(settings.placed().count(), usize::from(!brokered), "{ceiling} {user}");
        assert!(policy.brokered.iter().all(|one| one.hint.is_some() == hint), "{ceiling} {user}");
    }
    let above = ceiling(member, ADMIN).error();
    assert!(above.starts_with("groups.trust: admin by config.toml:3 is above member"), "{above}");
    let unknown = user("[groups.a]\ntrust = \"root\"\n").error();
    assert!(unknown.contains("known: member, admin"), "{unknown}");
}

#[test]
fn git_is_let_through_to_its_repositories_unless_all_of_github_is_open() {
    let at = |text: &str| Endpoint::parse(text, None).unwrap();
    let mine = Repository::of_url("https://github.com/me/tool").unwrap();
    let mut settings = user(TOKEN).resolve().unwrap();
    assert!(settings.network.decide(&at("github.com:443")).is_err());
    settings.broker(std::slice::from_ref(&mine)).unwrap();
    let allows = |settings: &Settings, method, path| {
        settings.network.allows_request(&at("github.com:443"), method, path)
    };
    assert!(allows(&settings, "GET", "/me/tool.git/info/refs"));
    assert!(allows(&settings, "POST", "/me/tool/git-receive-pack"));
    assert!(!allows(&settings, "POST", "/me/tool.git/info/refs"));
    assert!(!allows(&settings, "GET", "/them/tool.git/info/refs"));
    for refused in ["github.com:80", "api.github.com:443", "uploads.github.com:443"] {
        let refused = settings.network.decide(&at(refused)).unwrap_err();
        assert!(refused.to_string().contains("group a does not get the token t"), "{refused}");
        assert_eq!(refused.hint().unwrap().to_string(), "trust = \"admin\" under [groups.a]");
    }
    let mut open = Case { user: TOKEN, ..Case::default() };
    open.flags.network.allow.push("github.com".parse().unwrap());
    let mut settings = open.resolve().unwrap();
    settings.broker(&[mine]).unwrap();
    assert!(allows(&settings, "GET", "/them/tool.git/info/refs"));
    assert_eq!(settings.network.brokered[0].repositories.len(), 1);
}

#[test]
fn the_administrators_hosts_bind_what_git_is_let_through_to() {
    let mut settings = ceiling("[network]\nhosts = [\"a.com\"]\n", TOKEN).resolve().unwrap();
    let mine = Repository::of_url("https://github.com/me/tool").unwrap();
    let error = settings.broker(&[mine]).unwrap_err().to_string();
    assert!(error.starts_with("network.allow: github.com:443"), "{error}");
}

const HOME: &str = "[group_home]\nroot = \"/srv/a\"\n";

#[test]
fn a_group_has_files_where_groups_have_any() {
    let none = user("group = \"a\"\n").resolve().unwrap();
    assert_eq!(none.group_files, None);
    let text = format!(
        "group = \"a\"\n{HOME}env = [\"CHANNEL\"]\n[groups.a]\ntimeout = \"10m\"\nrepo_access = \"/srv/w\"\n\
         [[groups.a.mounts]]\nhost_path = \"/srv/notes\"\n[groups.b]\n"
    );
    let settings = user(text.leak()).resolve().unwrap();
    let files = settings.group_files.as_ref().unwrap();
    assert_eq!(files.folder, "a");
    assert_eq!(files.mounts[0].value.to_string(), "/srv/notes as notes (read-only)");
    assert_eq!(shown(&settings.limits.timeout), "10m by config.toml:6");
    let rows: Vec<String> = settings.origins().into_iter().map(|row| row.key).collect();
    for key in ["group_home.root", "group_home.env", "groups.repo_access", "groups.mounts"] {
        assert!(rows.iter().any(|row| row.starts_with(key)), "{key}: {rows:?}");
    }
}

#[test]
fn groups_share_no_folder_and_no_roots_but_the_administrators() {
    let shared = format!("group = \"a\"\n{HOME}[groups.b]\nfolder = \"a\"\n");
    let error = user(shared.leak()).error();
    assert!(error.contains("group a would have the files of group b"), "{error}");
    let reserved = format!("{HOME}env = [\"ANTHROPIC_API_KEY\"]\n");
    assert!(user(reserved.leak()).error().contains("is reserved"));
    let text = format!("group = \"a\"\n{HOME}").leak();
    let error = ceiling("[files]\nroots = [\"/home\"]", text).error();
    assert!(error.starts_with("group_home: /srv/a by config.toml:3"), "{error}");
}

#[test]
fn a_group_and_a_folder_have_the_name_of_one_directory() {
    for group in ["../dev", "a/b", "/etc", "..", ".", ".hidden", "", "a\nb"] {
        let mut by_flag = user(HOME);
        by_flag.flags.scalars.group = Some(group.to_owned());
        let by_file = user(format!("group = {group:?}\n{HOME}").leak());
        // A file has no empty texts at all.
        let in_file =
            if group.is_empty() { "not empty" } else { "is not a valid name for a group's files" };
        for (case, expected) in
            [(by_flag, "is not a valid name for a group's files"), (by_file, in_file)]
        {
            let error = case.error();
            assert!(error.contains(expected), "{group:?}: {error}");
        }
    }
    for folder in ["../dev", "a/b", "."] {
        let text = format!("group = \"a\"\n{HOME}[groups.a]\nfolder = {folder:?}\n");
        let error = user(text.leak()).error();
        assert!(error.contains("expected the name of one directory"), "{folder}: {error}");
    }
}

#[test]
fn a_repository_cannot_say_what_a_group_sees() {
    for (text, key) in [
        ("{\"groups\": {}}", "groups"),
        ("{\"group_home\": {}}", "group_home"),
        ("{\"group\": {}}", "group"),
    ] {
        let repository = Case { project: text, ..user("group = \"a\"\n") };
        let trusted = Case { project: text, ..trusted(text) };
        for case in [repository, trusted] {
            let error = case.error();
            let expected = format!("sandbox.json:1: {key}: unknown key");
            assert!(error.contains(&expected), "{error}");
        }
    }
}

#[test]
fn a_container_config_of_pynchys_is_imported() {
    let import = |json: &str, group: &str| {
        let file = SettingsFile { path: Path::new("row.json"), bytes: json.as_bytes() };
        import_group(file, group, Some(&HostPath::new("/home/p").unwrap()))
    };
    let row = r#"{"additional_mounts": [
        {"host_path": "~/notes", "container_path": "a/b", "readonly": false},
        {"host_path": "/srv/it's \"x\""}], "timeout": 600000}"#;
    let text = import(row, "dev.1").unwrap();
    assert_eq!(
        text,
        "[groups.\"dev.1\"]\ntimeout = \"10m\"\n\n[[groups.\"dev.1\".mounts]]\n\
         host_path = \"/home/p/notes\"\ncontainer_path = \"a/b\"\nreadonly = false\n\n\
         [[groups.\"dev.1\".mounts]]\nhost_path = \"\"\"/srv/it's \"x\"\"\"\"\n\
         container_path = \"\"\"it's \"x\"\"\"\"\nreadonly = true\n"
    );
    // What was imported is read as what it was.
    let whole = format!("group = \"dev.1\"\n{HOME}{text}");
    let settings = user(whole.leak()).resolve().unwrap();
    assert_eq!(settings.group_files.unwrap().mounts.len(), 2);
    assert_eq!(import("{}", "a").unwrap(), "[groups.\"a\"]\n");
    for wrong in ["[]", "{\"timeout\": 0}", "{\"additional_mounts\": [{}]}", "{\"image\": 1}", ""] {
        assert!(import(wrong, "a").is_err(), "{wrong}");
    }
    assert!(import("{}", "../a").is_err());
}

#[test]
fn rows_of_pynchys_groups_are_imported_and_what_is_left_out_is_named() {
    let import = |json: &str| {
        let file = SettingsFile { path: Path::new("rows.json"), bytes: json.as_bytes() };
        import_groups(file, Some(&HostPath::new("/home/p").unwrap()))
    };
    let rows = r#"[{"jid": "1@g.us", "name": "Dev", "folder": "dev", "trigger_pattern": "@Andy\n[groups.x]",
        "container_config": "{\"timeout\": 600000, \"additional_mounts\": [{\"host_path\": \"~/notes\"}]}",
        "requires_trigger": 1, "is_admin": null},
        {"folder": "main", "container_config": null, "is_admin": true}]"#;
    let text = import(rows).unwrap();
    assert_eq!(
        text,
        "[groups.\"dev\"]\n# not imported: \"jid\" = \"1@g.us\"\n# not imported: \"name\" = \"Dev\"\n\
         # not imported: \"trigger_pattern\" = \"@Andy\\n[groups.x]\"\n# not imported: \"requires_trigger\" = 1\n\
         timeout = \"10m\"\n\n[[groups.\"dev\".mounts]]\nhost_path = \"/home/p/notes\"\n\
         container_path = \"notes\"\nreadonly = true\n\n\
         [groups.\"main\"]\n# not imported: \"is_admin\" = true\n\n"
    );
    let whole = format!("group = \"main\"\n{HOME}{text}");
    let settings = user(whole.leak()).resolve().unwrap();
    assert_eq!(
        settings.group_trust.value,
        GroupTrust::Member,
        "nobody becomes an admin by an import"
    );
    assert_eq!(import("[]").unwrap(), "");
    for wrong in [
        "{}",
        r#"[{"name": "x"}]"#,
        r#"[{"folder": "../x"}]"#,
        r#"[{"folder": "a"}, {"folder": "a"}]"#,
        r#"[{"folder": "a", "container_config": "{"}]"#,
        r#"[{"folder": "a", "container_config": 1}]"#,
        r#"[]}, {"rows": []"#,
    ] {
        assert!(import(wrong).is_err(), "{wrong}");
    }
}
