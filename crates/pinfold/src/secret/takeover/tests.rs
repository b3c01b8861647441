use super::*;

#[test]
fn an_agents_file_is_where_its_variable_or_the_home_says() {
    let usual = |agent: AgentArg, variables: &[(&str, &str)]| {
        let of = |name: &str| variables.iter().find(|(other, _)| *other == name);
        agent.usual(|name| of(name).map(|(_, value)| value.into()))
    };
    for (agent, variable, file) in [
        (AgentArg::Claude, "CLAUDE_CONFIG_DIR", ".claude/.credentials.json"),
        (AgentArg::Codex, "CODEX_HOME", ".codex/auth.json"),
        (AgentArg::Pi, "PI_CODING_AGENT_DIR", ".pi/agent/auth.json"),
    ] {
        let home = ("HOME", "/home/me");
        let below_home = Path::new("/home/me").join(file);
        let name = below_home.file_name().unwrap();
        assert_eq!(usual(agent, &[home]), Some(below_home.clone()));
        assert_eq!(usual(agent, &[home, (variable, "")]), Some(below_home.clone()));
        assert_eq!(usual(agent, &[home, (variable, "/x")]), Some(Path::new("/x").join(name)));
        assert_eq!(usual(agent, &[]), None);
    }
}
