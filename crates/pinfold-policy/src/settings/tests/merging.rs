use super::*;

#[test]
fn without_files_the_documented_defaults_hold() {
    let settings = Case::default().resolve().unwrap();
    assert_eq!(shown(&settings.limits.memory), "8G by the built-in default");
    assert_eq!(shown(&settings.limits.pids), "4096 by the built-in default");
    assert_eq!(shown(&settings.limits.files), "65536 by the built-in default");
    assert_eq!(shown(&settings.limits.cpus), "none");
    assert_eq!(settings.scalars.workspace_mode.value, WorkspaceMode::SharedMount);
    let unattended = Layers { attendance: Attendance::Unattended, ..Layers::default() };
    let settings = Settings::resolve(unattended).unwrap();
    assert_eq!(settings.scalars.workspace_mode, Valued::default_of(WorkspaceMode::Overlay));
}

#[test]
fn flags_win_over_project_over_user() {
    let mut case = Case {
        user: "[resources]\nmemory = \"16G\"\npids = 9000\ncpus = 4",
        project: r#"{"resources": {"memory": "8G", "cpus": 0.5}}"#,
        ..Case::default()
    };
    let limits = case.resolve().unwrap().limits;
    assert_eq!(shown(&limits.memory), "8G by sandbox.json:1");
    assert_eq!(shown(&limits.cpus), "0.5 by sandbox.json:1");
    assert_eq!(shown(&limits.pids), "9000 by config.toml:3");
    case.flags.limits.memory = Some("32G".parse().unwrap());
    assert_eq!(shown(&case.resolve().unwrap().limits.memory), "32G by --memory");
}

#[test]
fn a_repository_that_nobody_trusts_may_only_lower_limits() {
    let settings = project("\n[resources]\nmemory = \"16G\"").resolve().unwrap();
    assert_eq!(shown(&settings.limits.memory), "8G by the built-in default");
    assert_eq!(
        waiting(&settings),
        ["sandbox.toml:3: resources.memory: use 16G instead of 8G by the built-in default"]
    );
    let cpus = project("[resources]\ncpus = 64").resolve().unwrap().limits.cpus;
    assert_eq!(shown(&cpus), "64 by sandbox.toml:2", "nothing is given, so anything narrows");
    let mut asked = project("[resources]\nmemory = \"16G\"");
    asked.flags.limits.memory = Some("2G".parse().unwrap());
    assert_eq!(shown(&asked.resolve().unwrap().limits.memory), "2G by --memory");
}

#[test]
fn reserved_variables_of_a_repository_wait_for_trust_or_are_refused() {
    const ASKS: &str =
        "[env]\nLD_PRELOAD = \"x.so\"\nA = \"1\"\n[[resumeCommands]]\nrun = \"true\"";
    let settings = project(ASKS).resolve().unwrap();
    let names = |settings: &Settings| {
        settings.env.iter().map(|one| one.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&settings), ["A"]);
    let asks = "sandbox.toml:2: env: set LD_PRELOAD to x.so, although it loads code into every program before \
                any of them has asked";
    assert_eq!(waiting(&settings)[0], asks);
    assert!(settings.resume.is_empty(), "a command may need what waits");
    let settings = trusted(ASKS).resolve().unwrap();
    assert_eq!(names(&settings), ["LD_PRELOAD", "A"]);
    for name in ["HOME", "PINFOLD_X", "ANTHROPIC_BASE_URL", "HTTPS_PROXY"] {
        let text: &'static str = format!("env = {{ {name} = \"x\" }}").leak();
        let error = project(text).resolve().unwrap_err();
        assert!(matches!(error, SettingsError::Reserved { .. }), "{name}");
    }
    assert!(user("[env]\nNODE_OPTIONS = \"--no-warnings\"").resolve().is_ok());
    let error = user("forward_env = [\"ANTHROPIC_API_KEY\"]").error();
    assert!(error.contains("pinfold secret set"), "{error}");
    assert!(user("[env]\nPATH = \"/x\"").resolve().is_ok());
    assert!(ceiling("[env]\nPATH = \"/x\"", "").resolve().is_ok());
    assert!(ceiling("[env]\nPINFOLD_WORKSPACE = \"/x\"", "").resolve().is_err());
}

#[test]
fn both_project_files_are_an_error() {
    let file = |path| SettingsFile { path: Path::new(path), bytes: b"" };
    let error = Project::read(&[file("sandbox.json"), file("sandbox.toml")]).unwrap_err();
    assert_eq!(error.to_string(), "both sandbox.json and sandbox.toml are present; keep one");
}

#[test]
fn a_limit_above_the_ceiling_names_both_sides() {
    assert_eq!(
        ceiling("[resources]\nmemory = \"4G\"", "[resources]\nmemory = \"6G\"").error(),
        "resources.memory: 6G by config.toml:2 is above 4G, the ceiling set by policy.toml:2\n\
         hint: ask the administrator of this machine, or choose what is allowed"
    );
    let lowered = ceiling("[resources]\nmemory = \"4G\"\ncpus = 2", "").resolve().unwrap();
    assert_eq!(shown(&lowered.limits.memory), "4G by policy.toml:2", "nobody chose 8G");
    assert_eq!(shown(&lowered.limits.cpus), "2 by policy.toml:3");
    let mut flagged = ceiling("[resources]\nmemory = \"4G\"", "");
    flagged.flags.limits.memory = Some("5G".parse().unwrap());
    assert!(flagged.error().contains("5G by --memory is above 4G"));
}

#[test]
fn a_choice_the_ceiling_forbids_names_both_sides() {
    assert_eq!(
        ceiling("landlock = \"required\"", "landlock = \"best-effort\"")
            .resolve()
            .unwrap_err()
            .to_string(),
        "landlock: best-effort by config.toml:1 is weaker than required, required by policy.toml:1"
    );
    let raised = ceiling("landlock = \"required\"", "").resolve().unwrap();
    assert_eq!(raised.scalars.landlock.origin.to_string(), "policy.toml:1");
    assert_eq!(raised.scalars.landlock.value, LandlockMode::Required);
    assert_eq!(
        ceiling("boundaries = [\"vm\"]", "boundary = \"namespace\"")
            .resolve()
            .unwrap_err()
            .to_string(),
        "boundary: namespace by config.toml:1 is not allowed by policy.toml:1, which allows vm"
    );
    assert!(ceiling("agents = [\"pi\"]", "agent = \"codex\"").resolve().is_err());
    let mut weaker = ceiling("allow_weaker = false\nnested = false", "");
    let ceiling = weaker.resolve().unwrap().ceiling;
    assert!(ceiling.check_nested(&Origin::Default).is_err());
    assert!(ceiling.allows_boundary(BoundaryName::Namespace));
    weaker.flags.scalars.allow_weaker = Some(true);
    assert!(weaker.error().contains("allow_weaker: true by --allow-weaker is not allowed"));
    weaker.flags.scalars.allow_weaker = Some(false);
    weaker.flags.scalars.nested = Some(true);
    assert!(weaker.error().contains("nested: true by --nested is not allowed"));
}

#[test]
fn grants_lie_under_the_administrators_roots() {
    let roots = "[files]\nroots = [\"/srv\"]\ndeny = [\"*.key\"]";
    let error = ceiling(roots, "[files]\nread = [\"~/x\"]").resolve().unwrap_err();
    assert_eq!(
        error.to_string(),
        "files.read: /home/me/x by config.toml:2 is not allowed by policy.toml:2, which allows \
         paths under /srv"
    );
    let settings = ceiling(roots, "[files]\nread = [\"/srv/x\"]").resolve().unwrap();
    assert_eq!(settings.files.deny[0].origin.layer(), "ceiling");
    let outside = HostPath::new("/srvx").unwrap();
    assert!(settings.ceiling.check_path("workspace", &outside, &Origin::Default).is_err());
}

#[test]
fn every_value_knows_its_origin() {
    let mut case = Case {
        user: "model = \"m\"\n[env]\nTOKEN = \"hush\"\n[providers.x]\n\
               base_url = \"https://x.example/\"",
        project: "[env]\nGOROOT = \"/g\"",
        ..Case::default()
    };
    case.flags.env = vec![("A".parse().unwrap(), "hush".to_owned())];
    let rows = case.resolve().unwrap().origins();
    let row = |key: &str| {
        let row = rows.iter().find(|row| row.key == key).unwrap();
        format!("{} | {} | {}", row.value, row.layer, row.origin)
    };
    assert_eq!(row("model"), "m | user | config.toml:1");
    assert_eq!(row("env.GOROOT"), "/g | project | sandbox.toml:2");
    assert_eq!(row("env.A"), "(set) | flag | --env");
    assert_eq!(row("providers.x.base_url"), "https://x.example | user | config.toml:5");
    assert!(!serde_json::to_string(&rows).unwrap().contains("hush"));
}

proptest! {
    #[test]
    fn no_layer_passes_the_ceiling_and_no_project_widens(
        top in 1u64..20, user in prop::option::of(1u64..20),
        project in prop::option::of(1u64..20), flag in prop::option::of(1u64..20),
    ) {
        let file = |value: Option<u64>| {
            value.map(|pids| format!("[resources]\npids = {pids}")).unwrap_or_default().leak()
        };
        let mut case =
            Case { ceiling: file(Some(top)), user: file(user), project: file(project), ..Case::default() };
        case.flags.limits.pids = flag;
        if let Ok(settings) = case.resolve() {
            let pids = settings.limits.pids.unwrap().value;
            prop_assert!(pids <= top);
            let given = user.unwrap_or(top);
            let lowered = project.map_or(given, |project| project.min(given));
            prop_assert_eq!(pids, flag.unwrap_or(lowered));
            if flag.is_none() {
                prop_assert!(pids <= user.unwrap_or(top));
            }
        }
    }
}
