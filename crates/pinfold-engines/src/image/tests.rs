/// An image has the version that a session has without one, and which was tried.
#[test]
fn images_have_the_agents_versions_of_the_recipes() {
    let pairs = [
        ("claude", include_str!("../../../../agents/recipes/claude.json")),
        ("codex", include_str!("../../../../agents/recipes/codex.json")),
        ("opencode", include_str!("../../../../agents/recipes/opencode.json")),
        ("pi", include_str!("../../../../agents/recipes/pi.json")),
    ];
    for (agent, recipe) in pairs {
        let recipe: serde_json::Value = serde_json::from_str(recipe).unwrap();
        let version = recipe["version"].as_str().unwrap();
        let files = pinfold_image::AgentFiles::built_in(agent).unwrap();
        let context = pinfold_image::AgentContext::new(files, None).unwrap();
        let text = std::str::from_utf8(context.dockerfile().as_bytes()).unwrap().to_owned();
        let installs = text.lines().filter(|line| line.contains("npm install --global"));
        let pinned = format!("@{version}");
        assert!(
            installs.clone().count() == 1
                && installs.into_iter().all(|line| line.ends_with(&pinned)),
            "{agent}: agents/images/{agent}/Dockerfile does not install {version}"
        );
    }
}
