//! What a variable has elsewhere than in the home.

use super::*;

/// A workspace, with the homes and what the variables have elsewhere.
fn placed(root: &str, variables: &[(&str, &str)]) -> Site {
    let mut homes = vec![HomePart::home("/home/u".into())];
    for (variable, value) in variables {
        let entries = crate::moved().iter().filter(|moved| moved.variable == *variable);
        homes.extend(entries.map(|moved| moved.to(Path::new(value))));
    }
    Site::new(Path::new(root), &homes)
}

#[test]
fn what_a_variable_has_elsewhere_is_protected_there() {
    let (protection, read_only) = (defaults(), Some(Effect::ReadOnly));
    let site = placed("/srv/w", &[("XDG_CONFIG_HOME", "/srv/w/cfg"), ("ZDOTDIR", "/srv/w/zsh")]);
    for path in ["cfg/git", "cfg/systemd", "CFG/Git", "zsh/.zshrc"] {
        assert_eq!(effect(&protection, &site, path), read_only, "{path}");
    }
    for path in ["cfg/gh", "cfg/git/credentials", "zsh/.zsh_history"] {
        assert_eq!(effect(&protection, &site, path), Some(Effect::Hide), "{path}");
    }
    assert_eq!(effect(&protection, &site, "git"), None);
    assert_eq!(effect(&protection, &site, "cfg"), None);
    let missing: Vec<PathBuf> = protection.missing(&site).map(|it| it.relative).collect();
    for name in ["cfg/git", "zsh/.zshenv"] {
        assert!(missing.iter().any(|missing| missing == Path::new(name)), "{name}: {missing:?}");
    }

    let below = placed("/srv/cfg/fish", &[("XDG_CONFIG_HOME", "/srv/cfg")]);
    assert_eq!(effect(&protection, &below, "config.fish"), None);
    let at = placed("/srv/cfg", &[("XDG_CONFIG_HOME", "/srv/cfg")]);
    assert_eq!(effect(&protection, &at, "fish"), read_only);
    assert_eq!(effect(&protection, &at, "gh"), Some(Effect::Hide));
}

#[test]
fn what_a_variable_names_itself_is_protected_whatever_it_is_called() {
    let protection = defaults();
    let variables =
        [("CODEX_HOME", "/srv/w/cx"), ("GNUPGHOME", "/srv/w/keys"), ("NETRC", "/srv/w/n")];
    let site = placed("/srv/w", &variables);
    assert_eq!(effect(&protection, &site, "cx"), Some(Effect::ReadOnly));
    assert_eq!(effect(&protection, &site, "cx/auth.json"), Some(Effect::Hide));
    assert_eq!(effect(&protection, &site, "keys"), Some(Effect::Hide));
    assert_eq!(effect(&protection, &site, "n"), Some(Effect::Hide));
    let paths: Vec<&Path> = site.moved().collect();
    assert_eq!(paths, ["cx", "keys", "n"].map(Path::new));
    assert!(site.is_moved(Path::new("CX")) && !site.is_moved(Path::new("cx/auth.json")));
    let missing: Vec<PathBuf> = protection.missing(&site).map(|it| it.relative).collect();
    assert!(missing.iter().any(|missing| missing == Path::new("cx")), "{missing:?}");
}

#[test]
fn a_home_below_the_root_is_protected_as_a_home_and_one_place_only_once() {
    let site = placed("/home", &[("XDG_CONFIG_HOME", "/home/u/.config")]);
    assert_eq!(effect(&defaults(), &site, "u/.config/git"), Some(Effect::ReadOnly));
    let missing: Vec<PathBuf> = defaults().missing(&site).map(|it| it.relative).collect();
    let git = missing.iter().filter(|missing| *missing == Path::new("u/.config/git"));
    assert_eq!(git.count(), 1, "{missing:?}");
}

#[test]
fn programs_find_their_settings_by_many_variables() {
    let (read_only, hidden) = (Some(Effect::ReadOnly), Some(Effect::Hide));
    for (variable, path, expected) in [
        ("DIRENV_CONFIG", "x", read_only),
        ("BASH_ENV", "x", read_only),
        ("GOENV", "x", read_only),
        ("PYTHONUSERBASE", "x/lib/python3.13/site-packages", read_only),
        ("PYTHONUSERBASE", "x/bin", read_only),
        ("GRADLE_USER_HOME", "x/init.d", read_only),
        ("CONTAINERS_CONF", "x", read_only),
        ("XDG_CONFIG_HOME", "x/tmux", read_only),
        ("XDG_CONFIG_HOME", "x/Code/User", read_only),
        ("XDG_CONFIG_HOME", "x/go/env", read_only),
        ("XDG_DATA_HOME", "x/fish/vendor_conf.d", read_only),
        ("OPENCODE_CONFIG", "x", read_only),
        ("CLAUDE_CONFIG_DIR", "x/.claude.json", read_only),
        ("npm_config_userconfig", "x", hidden),
        ("GOOGLE_APPLICATION_CREDENTIALS", "x", hidden),
        ("REGISTRY_AUTH_FILE", "x", hidden),
        ("PGPASSFILE", "x", hidden),
        ("SOPS_AGE_KEY_FILE", "x", hidden),
        ("HF_TOKEN_PATH", "x", hidden),
        ("COMPOSER_HOME", "x/auth.json", hidden),
        ("PSQL_HISTORY", "x", hidden),
    ] {
        let site = placed("/srv/w", &[(variable, "/srv/w/x")]);
        assert_eq!(effect(&defaults(), &site, path), expected, "{variable} {path}");
    }
}

#[test]
fn relative_path_is_meant_from_each_root() {
    let site = placed("/srv/w", &[("XDG_CONFIG_HOME", "./cfg"), ("ZDOTDIR", ".")]);
    for path in ["cfg/git", ".zshrc"] {
        assert_eq!(effect(&defaults(), &site, path), Some(Effect::ReadOnly), "{path}");
    }
    assert_eq!(effect(&defaults(), &site, "git"), None);
}

#[test]
fn settings_of_an_agent_are_protected_where_the_root_itself_is_its_directory() {
    for (variable, paths) in [
        ("CODEX_HOME", ["config.toml", "hooks.json", "rules"]),
        ("CLAUDE_CONFIG_DIR", ["settings.json", "settings.local.json", "hooks"]),
        ("PI_CODING_AGENT_DIR", ["settings.json", "models.json", "extensions"]),
    ] {
        let site = placed("/srv/w", &[(variable, "/srv/w")]);
        for path in paths {
            assert_eq!(
                effect(&defaults(), &site, path),
                Some(Effect::ReadOnly),
                "{variable} {path}"
            );
        }
    }
    let elsewhere = placed("/srv/w", &[("CODEX_HOME", "/srv/x")]);
    assert_eq!(effect(&defaults(), &elsewhere, "config.toml"), None);
}
