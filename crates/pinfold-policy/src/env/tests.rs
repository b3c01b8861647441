use super::*;
use crate::origin::Origin;
use proptest::prelude::*;

fn name(text: &str) -> EnvName {
    text.parse().unwrap()
}

fn var(text: &str, value: &str, layer: EnvLayer) -> EnvVar {
    EnvVar { name: name(text), value: value.into(), layer, origin: Origin::Default }
}

const ORDER: [EnvLayer; 10] = [
    EnvLayer::Profile,
    EnvLayer::Identity,
    EnvLayer::Forwarded,
    EnvLayer::Fixed,
    EnvLayer::User,
    EnvLayer::Project,
    EnvLayer::Flag,
    EnvLayer::Managed,
    EnvLayer::Door,
    EnvLayer::Placeholder,
];

#[test]
fn names_are_checked() {
    for good in ["A", "_", "a1", "GOPATH"] {
        assert!(good.parse::<EnvName>().is_ok(), "{good}");
    }
    for bad in ["", "1A", "A B", "A=B", "É", "A\0", "A-B"] {
        assert!(bad.parse::<EnvName>().is_err(), "{bad}");
    }
}

#[test]
fn reserved_names_say_who_owns_them() {
    let owner = |text| reserved(&name(text)).map(|rule| rule.owner);
    assert_eq!(owner("LD_PRELOAD"), Some(Owner::User));
    assert_eq!(owner("ANTHROPIC_BASE_URL"), Some(Owner::Pinfold));
    assert_eq!(owner("PATH"), Some(Owner::User));
    assert_eq!(owner("PINFOLD_WORKSPACE"), Some(Owner::Pinfold));
    assert_eq!(owner("GIT_CONFIG_COUNT"), Some(Owner::User));
    assert_eq!(owner("CLAUDE_CODE_OAUTH_TOKEN"), Some(Owner::Pinfold), "before CLAUDE_*");
    for loads in
        ["SHELL", "ZDOTDIR", "PROMPT_COMMAND", "OPENSSL_CONF", "NODE_PATH", "XDG_DATA_HOME"]
    {
        assert_eq!(owner(loads), Some(Owner::User), "{loads}");
    }
    assert_eq!(owner("GEMINI_API_KEY"), Some(Owner::Pinfold), "before GEMINI_*");
    assert_eq!(owner("GEMINI_CLI_SYSTEM_SETTINGS_PATH"), Some(Owner::User));
    for free in ["GOPATH", "GOROOT", "PATHS", "RUST_LOG", "ENVIRONMENT", "GIT_AUTHOR_NAME"] {
        assert_eq!(owner(free), None, "{free}");
    }
}

#[test]
fn a_managed_value_is_never_overridden_from_below() {
    let vars = [var("A", "managed", EnvLayer::Managed), var("A", "shell", EnvLayer::Forwarded)];
    let composed = compose_env(vars);
    assert_eq!(composed.len(), 1);
    assert_eq!(composed[0].value, "managed");
}

proptest! {
    #[test]
    fn the_highest_layer_wins_in_any_order(layers in prop::collection::vec(0usize..10, 1..10)) {
        let vars = layers.iter().map(|at| var("A", ORDER[*at].word(), ORDER[*at]));
        let highest = layers.iter().max().unwrap();
        prop_assert_eq!(&compose_env(vars)[0].value, ORDER[*highest].word());
    }
}
