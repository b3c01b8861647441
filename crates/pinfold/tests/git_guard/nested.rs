//! Agents that start sandboxes of their own, in a workspace with names that must stay hidden.

use std::path::PathBuf;

use pinfold_testkit::skip;

use super::common::{Case, sites, text, wait_for_line};

const AGENT: &str = "name = \"nested\"\ncli_command = \"sh\"\nnested = true\n";

fn case(site: &super::common::Site) -> Case {
    let case = site.repository();
    let file = format!("printf '%s' '{AGENT}' >../home/.config/pinfold/agents/nested.toml");
    case.host(&format!("mkdir -p ../home/.config/pinfold/agents; {file}; echo SECRET0 >.env"));
    case
}

/// Runs a script as the agent, or says what pinfold said.
fn agent(case: &Case, options: &[&str], script: &str) -> (bool, String, String) {
    let arguments = [&["run"], options, &["nested", "--", "-c", script]].concat();
    let output = case.pinfold_itself(&arguments);
    let (shown, stderr) = text(&output);
    (output.status.success(), shown, stderr)
}

#[test]
fn a_nested_agent_is_refused_where_a_name_in_a_live_directory_is_hidden() {
    for site in sites() {
        let case = case(&site);
        for options in [&[][..], &["--engine", "runc"], &["--engine", "crun"]] {
            let is_there = |name: &&&str| {
                ["/usr/sbin", "/usr/bin", "/usr/local/bin"]
                    .iter()
                    .any(|dir| PathBuf::from(dir).join(name).exists())
            };
            if options.last().is_some_and(|engine| !is_there(&engine)) {
                skip(
                    "a_nested_agent_is_refused_where_a_name_in_a_live_directory_is_hidden",
                    options[1],
                );
                continue;
            }
            let (is_done, shown, stderr) = agent(&case, options, "echo ran");
            assert!(!is_done && !shown.contains("ran"), "{site}: {shown}{stderr}");
            if let [_, engine] = options {
                assert!(stderr.contains("no nested sandboxes"), "{site}, {engine}: {stderr}");
                continue;
            }
            assert!(stderr.contains(".env cannot be kept hidden"), "{site}: {stderr}");
            let hint = "hint: work in a view (`--workspace overlay`), or move the secret out of the workspace (`pinfold hide .env`)";
            assert!(stderr.replace("\n  ", " ").contains(hint), "{site}: {stderr}");
        }
        assert_eq!(case.sessions(), 0, "{site}");
    }
}

#[test]
fn a_nested_agent_runs_in_a_view_or_without_hidden_names() {
    for site in sites() {
        let case = case(&site);
        let (_, shown, stderr) = agent(&case, &["--workspace", "overlay"], "cat .env; echo ran");
        assert_eq!(shown, "ran\n", "{site}: {stderr}");
        let hidden = case.pinfold_itself(&["hide", ".env"]);
        assert!(hidden.status.success(), "{site}: {}", text(&hidden).1);
        let (_, shown, stderr) = agent(&case, &[], "cat .env 2>/dev/null; echo ran");
        assert_eq!(shown, "ran\n", "{site}: {stderr}");
        case.pinfold_itself(&["hide", "--undo", ".env"]);
        case.host("rm .env");
        assert_eq!(agent(&case, &[], "echo ran").1, "ran\n", "{site}");
    }
}

#[test]
fn a_hidden_name_in_a_further_grant_is_refused_to_a_nested_agent_in_a_view() {
    for site in sites() {
        let case = case(&site);
        case.host("mkdir ../further; echo SECRET >../further/.env");
        let options = ["--workspace", "overlay", "--read", "../further"];
        let (is_done, _, stderr) = agent(&case, &options, "true");
        assert!(
            !is_done && stderr.contains("further/.env cannot be kept hidden"),
            "{site}: {stderr}"
        );
        assert!(stderr.contains("hint: grant a directory"), "{site}: {stderr}");
    }
}

/// A mount namespace that the agent made, in a view: the host's saves show nothing in it.
#[test]
fn a_save_on_the_host_shows_nothing_to_a_nested_namespace_in_a_view() {
    for site in sites() {
        let case = case(&site);
        let inner = "end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do cat .env; done; echo tried";
        let script = format!("unshare -Urm sh -c 'mount --make-rprivate /; echo ready; {inner}'");
        let mut run =
            case.spawn_itself(&["run", "--workspace", "overlay", "nested", "--", "-c", &script]);
        wait_for_line(&mut run, "ready");
        case.host("for n in $(seq 100); do echo SECRET$n >t; mv t .env; sleep 0.02; done");
        let (shown, stderr) = text(&run.wait_with_output().unwrap());
        assert_eq!(shown, "tried\n", "{site}: {stderr}");
    }
}
