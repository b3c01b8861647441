//! Services of this machine, rules for live sessions, and authorities that the caller trusts.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;

use pinfold_testkit::{Stage, installed, people, skip};

use super::World;
use super::world::{Said, people_with};

/// An HTTP server of the host that answers with the `Host` header that it got.
fn server() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let length = stream.read(&mut head).unwrap();
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let mut headers = head.lines().filter_map(|line| line.split_once(": "));
            let host = headers.find(|(name, _)| name.eq_ignore_ascii_case("host"));
            let body = format!("served {}\n", host.map_or("", |(_, value)| value));
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
            // A client that only looked whether somebody listens has gone.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
fn a_service_of_this_machine_is_reached_by_an_explicit_rule_alone() {
    let test = "a_service_of_this_machine_is_reached_by_an_explicit_rule_alone";
    if !installed("curl") {
        return skip(test, "curl is not installed");
    }
    let (port, other) = (server(), server());
    for user in people() {
        let stage = Stage::new(user);
        let rule = format!("localhost:{port}");
        let script = format!(
            "for name in localhost 127.0.0.1 host.pinfold host.docker.internal; do \
             curl -sS -m 10 http://$name:{port}/; done; \
             curl -sS -m 10 http://localhost:{other}/ || echo closed; \
             curl -sS -m 10 -o /dev/null -w '%{{http_code}}\\n' http://host.pinfold:{other}/"
        );
        let said = Said::of(stage.run_shell(&["--allow-internal-host", &rule], &script));
        let expected = format!(
            "served localhost:{port}\nserved 127.0.0.1:{port}\n\
             served host.pinfold:{port}\nserved host.docker.internal:{port}\n\
             closed\n403\n"
        );
        assert_eq!(said.out, expected, "{}", said.err);
        let closed = format!("curl -sS -m 10 http://localhost:{port}/ || echo closed");
        assert_eq!(Said::of(stage.run_shell(&[], &closed)).out, "closed\n");
        let as_host = format!("curl -sS -m 10 http://localhost:{port}/ || echo closed");
        let rule = format!("host.docker.internal:{port}");
        let said = Said::of(stage.run_shell(&["--allow-internal-host", &rule], &as_host));
        assert_eq!(said.out, format!("served localhost:{port}\n"), "{}", said.err);
    }
}

#[test]
fn a_service_of_this_machine_at_a_port_of_pinfolds_own_is_refused() {
    for user in people() {
        let stage = Stage::new(user);
        let said = Said::of(stage.run(&["--allow-internal-host", "localhost:881"], &["true"]));
        assert!(!said.ok && said.err.contains("pinfold uses this port itself"), "{}", said.err);
    }
}

#[test]
fn a_host_is_allowed_in_a_live_session_that_had_none() {
    for user in people_with("a_host_is_allowed_in_a_live_session_that_had_none", &[]) {
        let world = World::new(user, &["web"]);
        let call = |args: &[&str]| Said::of(world.pinfold(args).output().unwrap());
        assert!(call(&["run", "--detach", "--idle", "--name", "dev"]).ok);
        let get = |options: &[&str]| {
            let curl = ["exec", "dev", "--", "curl", "-sS", "-m", "10"];
            call(&[&curl[..], options, &["https://web.example.com/x"]].concat())
        };
        assert!(!get(&[]).ok);
        let allowed = call(&["allow", "web.example.com"]);
        assert!(allowed.ok && !allowed.err.contains("note"), "{}", allowed.err);
        // By the proxy, and without it.
        for options in [&[][..], &["--noproxy", "*"]] {
            let said = get(options);
            assert!(said.out.starts_with("GET /x"), "{options:?}: {}{}", said.out, said.err);
        }
        assert!(call(&["forbid", "web.example.com"]).ok);
        assert!(!get(&[]).ok);
        assert!(call(&["stop", "dev"]).ok);
    }
}

#[test]
fn a_host_is_allowed_for_programs_with_a_proxy_in_a_session_that_is_waited_for() {
    let test = "a_host_is_allowed_for_programs_with_a_proxy_in_a_session_that_is_waited_for";
    for user in people_with(test, &[]) {
        let world = World::new(user, &["web"]);
        let script = "echo ready; read line; curl -sS -m 10 https://web.example.com/x";
        let mut run = world.pinfold(&["run", "--", "sh", "-c", script]);
        let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        run.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let allowed = Said::of(world.pinfold(&["allow", "web.example.com"]).output().unwrap());
        assert!(allowed.ok && allowed.err.contains("HTTPS_PROXY"), "{}", allowed.err);
        run.stdin.take().unwrap().write_all(b"\n").unwrap();
        let said = Said::of(run.wait_with_output().unwrap());
        assert!(said.out.starts_with("GET /x"), "{}", said.out);
    }
}

#[test]
fn a_preset_is_a_list_of_rules() {
    for user in people() {
        let stage = Stage::new(user);
        let config = stage.pinfold(&["config", "--allow", "pypi"]).output().unwrap();
        let said = Said::of(config);
        said.has(&["pypi.org", "files.pythonhosted.org"]);
        let unknown = Said::of(stage.run(&["--allow", "maven"], &["true"]));
        assert!(!unknown.ok && unknown.err.contains("npm, pypi, crates"), "{}", unknown.err);
        let call = |args: &[&str]| Said::of(stage.pinfold(args).output().unwrap());
        assert!(call(&["run", "--detach", "--idle", "--name", "dev"]).ok);
        call(&["allow", "crates"]).has(&["index.crates.io by pinfold allow", "static.crates.io"]);
        assert!(!call(&["forbid", "crates"]).out.contains("crates.io"));
        assert!(call(&["stop", "dev"]).ok);
    }
}

#[test]
fn authorities_that_the_caller_trusts_count_inside() {
    let test = "authorities_that_the_caller_trusts_count_inside";
    for user in people_with(test, &["node"]) {
        let world = World::new(user, &["web"]);
        let authority = world.stage.path("world/bundle.pem").display().to_string();
        let script = "fetch('https://web.example.com/x').then(r => r.text()).then(console.log, \
                      error => console.log('no', error.cause.code))";
        let options = ["run", "--allow-host", "web.example.com"];
        let fetch = |more: &[&str], is_trusted: bool| {
            let mut run = world.pinfold(&[&options[..], more].concat());
            if is_trusted {
                run.env("NODE_EXTRA_CA_CERTS", &authority).env("SSL_CERT_FILE", &authority);
            }
            Said::of(run.args(["--", "node", "-e", script]).output().unwrap())
        };
        assert!(fetch(&[], false).out.starts_with("no "), "node trusts its own list alone");
        // Also where the session has an authority of its own, for another host.
        for more in [&[][..], &["--intercept", "other.example.org"]] {
            let said = fetch(more, true);
            assert!(said.out.starts_with("GET /x"), "{more:?}: {}{}", said.out, said.err);
        }
        let mut run = world.pinfold(&options);
        run.env("SSL_CERT_FILE", "/no/such/file").env("NODE_USE_SYSTEM_CA", "1");
        let said = Said::of(run.args(["--", "printenv", "NODE_USE_SYSTEM_CA"]).output().unwrap());
        assert_eq!(said.out, "1\n");
        assert!(said.ok && said.err.contains("SSL_CERT_FILE does not count"), "{}", said.err);
    }
}

/// What a company says to its users: git, npm and pip each have a setting, and the machine knows nothing.
#[test]
fn authorities_in_the_callers_settings_count() {
    let test = "authorities_in_the_callers_settings_count";
    for user in people_with(test, &["git", "npm", "pip3"]) {
        let world = World::prepared(user, &["web"], |stage| {
            let bundle = fs::read_to_string(stage.path("world/bundle.pem")).unwrap();
            let (system, own) = bundle.split_at(bundle.rfind("-----BEGIN").unwrap());
            let key = fs::read_to_string(stage.path("world/server.key")).unwrap();
            stage.write("home/corp.pem", format!("{key}{own}"));
            stage.write("world/bundle.pem", system);
        });
        let made = world.outside("git", &["init", "-q", "--bare", "../world/git/x.git"]).status();
        assert!(made.unwrap().success());
        let script = "git ls-remote https://web.example.com/git/x.git 2>&1 | tail -1
            npm --fetch-retries=0 --registry https://web.example.com/npm/ view a 2>&1 | grep -i code
            pip3 -q --retries 0 download --no-deps --index-url https://web.example.com/pip/ a 2>&1 | tail -1
            grep -rl 'PRIVATE KEY\\|hush' /run/pinfold/caller-trust ~/.npmrc";
        let reached = |more: &[&str]| {
            let options = ["--allow-host", "web.example.com"];
            let before = world.seen().len();
            let said = world.shell(&[&options[..], more].concat(), script);
            let seen = world.seen().split_off(before);
            let reached = ["/git/x.git", "/npm/a", "/pip/a"].map(|path| seen.contains(path));
            (reached, said)
        };
        let (none, said) = reached(&[]);
        assert_eq!(none, [false; 3], "{said:?}");
        let config = "[http \"https://web.example.com/\"]\n\tsslCAInfo = ~/corp.pem\n";
        world.stage.write("home/.gitconfig", config);
        world.stage.write("home/.npmrc", "//r/:_authToken=hush\ncafile=${HOME}/corp.pem\n");
        world.stage.write("home/.config/pip/pip.conf", "[global]\ncert = ~/corp.pem\n");
        // Also where the session has an authority of its own, and where TLS is ended outside.
        for more in
            [&[][..], &["--intercept", "other.example.org"], &["--intercept", "web.example.com"]]
        {
            let (all, said) = reached(more);
            assert_eq!(all, [true; 3], "{more:?}: {said:?}");
            assert!(!said.out.contains("caller-trust") && !said.out.contains(".npmrc"), "{said:?}");
        }
        world.stage.write("home/.config/pip/pip.conf", "[global]\ncert = ~/missing.pem\n");
        let said = world.run(&[], &["true"]);
        let note = "cert of pip ([global]) does not count in the sandbox";
        assert!(said.ok && said.err.contains(note), "{}", said.err);
    }
}

/// An agent that asks its gateway with curl. Its own provider is not there.
const ASKING: &str = r#"
name = "asking"
cli_command = "sh"
default_provider = "nobody"
[providers.nobody]
auth_modes = ["none"]
default_auth_mode = "none"
api = "openai"
base_url = "http://127.0.0.1:9"
secret = "nobody"
[compatible.openai]
env = { URL = "{gateway}", KEY = "{key}" }
"#;

/// The other end of a connection is tried outside where TLS is ended there, and for models always.
#[test]
fn authorities_that_the_caller_trusts_count_outside() {
    for user in people_with("authorities_that_the_caller_trusts_count_outside", &[]) {
        let world = World::new(user, &["web"]);
        world.stage.write("home/.config/pinfold/agents/asking.toml", ASKING);
        world.config(
            "[providers.corp]\napi = \"openai\"\nbase_url = \"https://web.example.com\"\nkeyless = true",
        );
        let path = |name: &str| world.stage.path(name).display().to_string();
        let (authority, other) = (path("world/bundle.pem"), path("world/wrong.pem"));
        let run = |variable: &str, options: &[&str], script: &str| {
            let mut run = world.pinfold(&[&["run"], options].concat());
            // Without it the system of this world trusts the authority anyway.
            run.env("SSL_CERT_FILE", &other).env(variable, &authority);
            Said::of(run.args(["-c", script]).output().unwrap())
        };
        let intercepted = ["--allow-host", "web.example.com", "--intercept", "web.example.com"];
        let fetch = "curl -sS https://web.example.com/x";
        for (variable, is_trusted) in [
            ("CURL_CA_BUNDLE", true),
            ("GIT_SSL_CAINFO", true),
            ("NODE_EXTRA_CA_CERTS", true),
            ("OTHER_VARIABLE", false),
        ] {
            let said = run(variable, &[&intercepted[..], &["--", "sh"]].concat(), fetch);
            assert_eq!(said.out.starts_with("GET /x"), is_trusted, "{variable}: {said:?}");
        }
        let ask = "curl -sS -H \"Authorization: Bearer $KEY\" $URL/v1/models";
        let options = ["--provider", "corp", "--model", "m", "asking", "--"];
        // Agents honour one of the variables.
        for (variable, is_trusted) in [("NODE_EXTRA_CA_CERTS", true), ("GIT_SSL_CAINFO", false)] {
            let said = run(variable, &options, ask);
            assert_eq!(said.out.starts_with("GET /v1/models"), is_trusted, "{variable}: {said:?}");
        }
    }
}

/// What lies at these names later counts in later sessions.
#[test]
fn authorities_outside_are_those_at_the_start_of_a_session() {
    for user in people_with("authorities_outside_are_those_at_the_start_of_a_session", &[]) {
        let world = World::new(user, &["web"]);
        world.stage.write("home/.config/pinfold/agents/asking.toml", ASKING);
        world.config(
            "[providers.corp]\napi = \"openai\"\nbase_url = \"https://web.example.com\"\nkeyless = true",
        );
        let read = |name: &str| std::fs::read(world.stage.path(name)).unwrap();
        let script = "echo ready; read line
            curl -sS -H \"Authorization: Bearer $KEY\" $URL/v1/models";
        for (variable, named) in [("SSL_CERT_FILE", "/00000000.0"), ("SSL_CERT_DIR", "")] {
            world.stage.write("other/trusted/00000000.0", read("world/wrong.pem"));
            let named = world.stage.path(&format!("other/trusted{named}"));
            let mut run = world.pinfold(&["run", "--provider", "corp", "--model", "m", "asking"]);
            run.env_remove("SSL_CERT_FILE").env(variable, named).args(["--", "-c", script]);
            let mut run = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            run.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
            world.stage.write("other/trusted/00000000.0", read("world/bundle.pem"));
            run.stdin.take().unwrap().write_all(b"\n").unwrap();
            let said = Said::of(run.wait_with_output().unwrap());
            assert!(said.out.contains("did not answer: tls"), "{variable}: {said:?}");
        }
    }
}

/// Puts an authority wherever a variable says, and says where it could.
const PLANT: &str = r#"
plant() { (eval "$1") 2>/dev/null && echo "$1"; }
for file in ca.crt link.crt hidden.pem new.crt below/new.crt trusted/0.0 trusted/1.0 git.crt npm.crt; do
    plant "echo planted >> $file"
    plant "ln -f other.crt $file"
done
plant "rm -f ca.crt"
plant "mv trusted away"
plant "ln -sfn other.crt link.crt"
plant "rm -rf trusted"
exit 0
"#;

#[test]
fn sandbox_adds_no_authority_to_what_a_variable_names() {
    for user in people() {
        let stage = Stage::new(user);
        let files = ["ca.crt", "hidden.pem", "trusted/0.0", "git.crt", "npm.crt"];
        let files = files.map(|name| format!("ws/{name}"));
        let root = stage.workspace().display().to_string();
        stage.write("home/.gitconfig", format!("[http]\nsslCAInfo = {root}/git.crt\n"));
        stage.write("home/.npmrc", format!("cafile={root}/npm.crt\n"));
        files.iter().for_each(|name| drop(stage.write(name, "mine\n")));
        stage.write("ws/other.crt", "other\n");
        std::os::unix::fs::symlink("ca.crt", stage.workspace().join("link.crt")).unwrap();
        let named = [
            ("SSL_CERT_FILE", "link.crt"),
            ("NODE_EXTRA_CA_CERTS", "hidden.pem"),
            ("GIT_SSL_CAINFO", "new.crt"),
            ("CURL_CA_BUNDLE", "below/new.crt"),
            ("SSL_CERT_DIR", "trusted"),
        ];
        for options in [&["--workspace", "shared_mount"][..], &["--unattended"]] {
            let mut run = stage.pinfold(&[&["run"], options].concat());
            run.envs(named.map(|(variable, name)| (variable, stage.workspace().join(name))));
            let said = Said::of(run.args(["--", "sh", "-c", PLANT]).output().unwrap());
            assert!(
                said.ok && (options.len() == 1 || said.out.is_empty()),
                "{options:?}: {said:?}"
            );
            for name in &files {
                assert_eq!(
                    std::fs::read_to_string(stage.path(name)).unwrap(),
                    "mine\n",
                    "{said:?}"
                );
            }
            let link = std::fs::read_link(stage.workspace().join("link.crt")).unwrap();
            assert_eq!(link.display().to_string(), "ca.crt");
            for name in ["ws/new.crt", "ws/below", "ws/trusted/1.0"] {
                assert!(!stage.path(name).exists(), "{options:?}: {name}: {said:?}");
            }
        }
    }
}
