use std::fs;
use std::os::unix::fs::symlink;

use pinfold_policy::document::SettingsFile;
use pinfold_policy::settings::Layers;
use tempfile::TempDir;

use super::*;

fn file<'t>(name: &'static str, text: &'t str) -> SettingsFile<'t> {
    SettingsFile { path: Path::new(name), bytes: text.as_bytes() }
}

#[test]
fn an_administrators_roots_bind_what_a_link_leads_to() {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
    for name in ["work/own", "elsewhere"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    symlink(at("elsewhere"), at("work/out")).unwrap();
    symlink(at("work/own"), at("work/in")).unwrap();
    let policy = format!("[files]\nroots = [{:?}]\n", at("work"));
    let collected = |key: &str, name: &str| {
        let user = format!("[files]\n{key} = [{:?}]\n", at(name));
        let (ceiling, user) = (file("policy.toml", &policy), file("config.toml", &user));
        let layers = Layers { ceiling: Some(ceiling), user: Some(user), ..Layers::default() };
        let settings = Settings::resolve(layers).unwrap();
        let workspace = Workspace::scratch(HostPath::new(at("work")).unwrap());
        View::collect(Subject::Core, &settings, &workspace, None, Vec::new()).map(drop)
    };
    for key in ["read", "write"] {
        collected(key, "work/in").unwrap();
        let error = collected(key, "work/out").unwrap_err().to_string();
        assert!(error.starts_with(&format!("files.{key}: ")), "{error}");
        assert!(error.contains("/elsewhere"), "{error}");
    }
}
