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
    for name in ["work/own", "work/home", "work/ws", "elsewhere", "config"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    symlink(at("elsewhere"), at("work/out")).unwrap();
    let list = format!(
        "non_admin_read_only = true\nblocked_patterns = []\n[[allowed_roots]]\npath = {:?}\n",
        at("")
    );
    fs::write(at("config/mount-allowlist.toml"), list).unwrap();
    let policy = format!("[files]\nroots = [{:?}]\n", at("work"));
    let places =
        Places { home: at("home"), config: at("config"), state: at("state"), cache: at("cache") };
    let found = |root: &str, more: &str| {
        let user = format!("group = \"dev\"\n[group_home]\nroot = {:?}\n{more}", at(root));
        let (ceiling, user) = (file("policy.toml", &policy), file("config.toml", &user));
        let layers = Layers { ceiling: Some(ceiling), user: Some(user), ..Layers::default() };
        let settings = Settings::resolve(layers).unwrap();
        let workspace = Workspace::scratch(HostPath::new(at("work/ws")).unwrap());
        let missing = Missing::Make;
        Group::find(&settings, &workspace, &places, missing, &mut Vec::new()).map(drop)
    };
    let place = |name: &str| format!("{:?}\n", at(name));
    found("work/home", &format!("scripts = {}", place("work/own"))).unwrap();
    let out = place("work/out");
    for (root, more) in [
        ("work/out", String::new()),
        ("work/home", format!("scripts = {out}")),
        ("work/home", format!("[groups.dev]\nrepo_access = {out}")),
        ("work/home", format!("[[groups.dev.mounts]]\nhost_path = {out}")),
    ] {
        let error = found(root, &more).unwrap_err().to_string();
        assert!(error.starts_with("groups: ") && error.contains("/elsewhere"), "{more}: {error}");
    }
}
