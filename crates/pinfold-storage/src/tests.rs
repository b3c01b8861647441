use std::os::unix::fs::{PermissionsExt as _, symlink};

use pinfold_host::launcher::Launcher;
use pinfold_host::sessions::SessionState;
use pinfold_host::wrappers::Wrappers;

use super::*;

struct Case {
    _dir: tempfile::TempDir,
    places: Places,
    launcher: Launcher,
}

impl Case {
    fn host(&self) -> Host<'_> {
        Host { places: &self.places, launcher: &self.launcher }
    }
}

fn case() -> Case {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let at = |name: &str| root.join(name);
    let (home, config) = (root.clone(), at("config"));
    let places = Places { home, config, state: at("state"), cache: at("cache") };
    for place in [&places.config, &places.state, &places.cache] {
        Places::make_private(place).unwrap();
    }
    Case { _dir: dir, places, launcher: Launcher::new(Wrappers::none()) }
}

fn write(path: PathBuf) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "x".repeat(10_000)).unwrap();
    path
}

fn usage(case: &Case, kind: Kind) -> Usage {
    measure(case.host()).unwrap().into_iter().find(|usage| usage.kind == kind).unwrap()
}

#[test]
fn every_kind_is_measured_and_removed() {
    let case = case();
    let Places { state, cache, .. } = &case.places;
    let files = [
        (Kind::Agents, cache.join("agents/0123.tmp-1/tree/file")),
        (Kind::Systems, cache.join("bases/0123.tmp-1/tree/file")),
        (Kind::Scans, cache.join("directories/1-2-3")),
        (Kind::Machines, cache.join("machines/images/6.1-0123/vmlinux")),
        (Kind::Machines, cache.join("machines/templates/0123")),
        (Kind::Logs, state.join("logs/0123456789ab")),
        (Kind::Views, state.join("review/0123456789ab/layers/file")),
        (Kind::AgentState, state.join("agents/claude/.claude/history")),
        (Kind::KeptGit, state.join("private/kept-0123456789ab-0/HEAD")),
        (Kind::KeptGit, state.join("private/kept-0123456789ab/0/HEAD")),
    ];
    for (kind, path) in files {
        let nothing = Usage { kind, bytes: 0, removable: 0, oldest: None };
        assert_eq!(usage(&case, kind), nothing);
        write(path.clone());
        let Usage { bytes, removable, oldest, .. } = usage(&case, kind);
        assert!(bytes >= 10_000 && removable == bytes, "{kind:?}: {bytes}");
        let age = oldest.unwrap().elapsed().unwrap();
        assert!(age < Duration::from_secs(60), "{kind:?}: {age:?}");
        remove(case.host(), kind).unwrap();
        assert!(!path.exists(), "{kind:?}");
    }
}

/// What was kept for a workspace that is gone, with its record.
fn gone_state(case: &Case) -> PathBuf {
    let state = case.places.state.join("agents/.workspaces/gone-0123");
    write(state.join("claude/.claude/history"));
    let workspace = case.places.home.join("gone");
    fs::write(state.join(".workspace"), workspace.to_str().unwrap()).unwrap();
    state
}

#[test]
fn state_of_workspaces_that_are_gone_is_listed_and_removed_alone() {
    let case = case();
    let other = write(case.places.state.join("agents/claude/.claude/history"));
    let unknown = write(case.places.state.join("agents/.workspaces/of-older/claude/history"));
    let state = gone_state(&case);
    let listed = entries(case.host(), Kind::GoneState).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].of, Some(case.places.home.join("gone")));
    assert!(listed[0].path == state && listed[0].is_removable && listed[0].bytes >= 10_000);
    assert!(usage(&case, Kind::AgentState).bytes > usage(&case, Kind::GoneState).bytes);
    remove(case.host(), Kind::GoneState).unwrap();
    assert!(!state.exists() && other.exists() && unknown.exists());
}

#[test]
fn only_kept_git_directories_are_taken_for_some() {
    let case = case();
    let private = case.places.state.join("private");
    let others = ["0123456789ab", "kept-", "kept-x", "kept-0123456789ab-", "kept-0123456789ab-0x"];
    for name in others {
        write(private.join(name).join("HEAD"));
    }
    let file = write(private.join("kept-0123456789ab-1"));
    symlink(&case.places.home, private.join("kept-0123456789ab-2")).unwrap();
    assert!(entries(case.host(), Kind::KeptGit).unwrap().is_empty());
    remove(case.host(), Kind::KeptGit).unwrap();
    assert!(file.exists() && others.iter().all(|name| private.join(name).join("HEAD").exists()));
}

#[test]
fn record_of_a_kept_git_directory_goes_with_it() {
    let case = case();
    let private = case.places.state.join("private");
    let copy = write(private.join("kept-0123456789ab-0/HEAD"));
    let of_it = ["kept-0123456789ab-0.json", "kept-0123456789ab-0.out/said/pack"];
    let of_it = of_it.map(|name| write(private.join(name)));
    let other = write(private.join("kept-0123456789ab-1.json"));
    remove(case.host(), Kind::KeptGit).unwrap();
    assert!(!copy.exists() && of_it.iter().all(|path| !path.exists()) && other.exists());
}

#[test]
fn nothing_of_a_live_session_is_removed() {
    let case = case();
    let session = SessionState::create(&case.places).unwrap();
    let (state, id) = (&case.places.state, session.id().as_str().to_owned());
    let log = write(state.join("logs").join(&id));
    let view = write(state.join("review").join(&id).join("layers/file"));
    let aside = write(state.join("set-aside").join(&id).join("0"));
    let history = write(state.join("agents/claude/history"));
    let kept = write(state.join("private").join(format!("kept-{id}-0")).join("HEAD"));
    for kind in [Kind::Logs, Kind::Views, Kind::SetAside, Kind::KeptGit] {
        assert_eq!(usage(&case, kind).removable, 0, "{kind:?}");
        remove(case.host(), kind).unwrap();
    }
    let gone = gone_state(&case);
    for kind in [Kind::AgentState, Kind::GoneState] {
        assert_eq!(usage(&case, kind).removable, 0, "{kind:?}");
        let error = remove(case.host(), kind).unwrap_err();
        assert_eq!(error.to_string(), "a session runs, which may use it");
    }
    for path in [log, view, aside, history, kept, gone] {
        assert!(path.exists(), "{}", path.display());
    }
}

/// What an agent leaves in its state can be a link to anything.
#[test]
fn links_in_an_agents_state_lead_nowhere() {
    let case = case();
    let kept = write(case.places.home.join("project/kept"));
    fs::set_permissions(kept.parent().unwrap(), fs::Permissions::from_mode(0o500)).unwrap();
    let own = case.places.state.join("agents/claude");
    fs::create_dir_all(&own).unwrap();
    symlink(kept.parent().unwrap(), own.join("history")).unwrap();
    assert!(usage(&case, Kind::AgentState).bytes < 100_000);
    remove(case.host(), Kind::AgentState).unwrap();
    assert!(!own.exists() && kept.exists());
    let mode = fs::metadata(kept.parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o500);
}

#[test]
fn names_of_kinds_differ_and_what_is_lost_has_to_be_named() {
    let named: Vec<&str> =
        Kind::ALL.into_iter().filter(|kind| kind.must_be_named()).map(Kind::name).collect();
    assert_eq!(named, ["views", "set-aside", "agent-state", "gone-state", "kept-git"]);
}
