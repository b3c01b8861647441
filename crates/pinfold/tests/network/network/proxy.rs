//! Behind a company's proxy: squid, which alone knows some names, and may want a password.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use pinfold_testkit::memory::{MEMORY_SEARCH, descendants, disguised, search_memory};
use pinfold_testkit::{Stage, User};

use super::World;
use super::secrets::await_file;
use super::world::{Said, people_with};

/// The password as a URL has it, as squid hears it, and as it goes over the wire.
const SECRETS: [&str; 3] = ["s3cr3t%40pass", "s3cr3t@pass", "bWU6czNjcjN0QHBhc3M="];

/// Squid's settings; `access` says who may pass.
fn squid(access: &str) -> impl FnOnce(&Stage) {
    move |stage| {
        let helper = "#!/bin/sh\nwhile read -r user password; do\n\
            if [ \"$user $password\" = \"me s3cr3t@pass\" ]; then echo OK; else echo ERR; fi\ndone\n";
        let helper = stage.write("world/squid-helper", helper);
        std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();
        let hosts = stage.write(
            "world/squid-hosts",
            "93.184.216.34 only.example.com forbidden.example.com\n93.184.216.40 gone.example.com\n",
        );
        let config = format!(
            "http_port 93.184.216.43:3128\npid_filename none\naccess_log none\ncache_log /dev/null\n\
             cache deny all\nshutdown_lifetime 0 seconds\npinger_enable off\nhosts_file {}\n\
             auth_param basic program {}\nauth_param basic children 1\nacl me proxy_auth REQUIRED\n\
             acl tls port 443\nacl CONNECT method CONNECT\nacl forbidden dstdomain forbidden.example.com\n\
             http_access deny CONNECT !tls\nhttp_access deny forbidden\n{access}\nhttp_access deny all\n",
            hosts.display(),
            helper.display(),
        );
        stage.write("world/squid.conf", config);
    }
}

const OPEN: &str = "http_access allow all";
const AUTHENTICATED: &str = "http_access allow me";

const CONFIG: &str = r#"
[network]
allow = ["only.example.com", "only.example.com:8080", "forbidden.example.com", "gone.example.com", "web.example.com:*",
         "other.example.org"]
[[secrets]]
id = "svc"
env = "SVC"
hosts = ["other.example.org"]
"#;

/// A program whose model provider is behind the proxy.
const AGENT: &str = r#"
name = "probe"
cli_command = "sh"
default_provider = "far"
[providers.far]
auth_modes = ["api_key"]
default_auth_mode = "api_key"
api = "anthropic"
base_url = "https://only.example.com"
secret = "far"
env = { URL = "{gateway}", KEY = "{key}" }
"#;

fn world(person: User, access: &str) -> World {
    let world = World::prepared(person, &["web", "squid"], squid(access));
    world.config(CONFIG);
    world.stage.write("home/.config/pinfold/agents/probe.toml", AGENT);
    world.set_secret("svc", "svc-real-0123456789abcdefghijklmnop");
    world.set_secret("far", "sk-ant-api03-REAL-0123456789");
    world
}

/// pinfold on a host with such a proxy.
fn behind(world: &World, user: &str, args: &[&str]) -> Command {
    let mut command = world.pinfold(args);
    let proxy = format!("http://{user}proxy.example.net:3128");
    command.env("HTTPS_PROXY", &proxy).env("HTTP_PROXY", &proxy).env("NO_PROXY", "web.example.com");
    command
}

fn run(world: &World, user: &str, options: &[&str], script: &str) -> Said {
    let args = [&["run"], options, &["--", "sh", "-c", script]].concat();
    Said::of(behind(world, user, &args).output().unwrap())
}

const SCRIPT: &str = "ask() { echo \"$1\" $(curl -sS -m10 -o said -w '%{http_code} ' $2 2>&1; head -c 400 said; rm -f said); }\n\
    ask tunnel https://only.example.com/tunnel\n\
    ask plain http://only.example.com/plain\n\
    ask over \"--noproxy * http://only.example.com/over\"\n\
    ask over-tls \"--noproxy * https://only.example.com/over-tls\"\n\
    ask direct https://web.example.com/direct\n\
    ask secret \"https://other.example.org/secret -H X-Key:$SVC\"\n\
    ask refused-plain http://forbidden.example.com/\n\
    ask refused https://forbidden.example.com/\n\
    ask gone http://gone.example.com/\n\
    ask denied https://denied.example.com/\n\
    ask port \"--noproxy * http://only.example.com:8080/\"\n";

#[test]
fn everything_goes_through_a_proxy_that_alone_knows_the_way() {
    for person in people_with("squid", &["squid"]) {
        for (access, user) in [(OPEN, ""), (AUTHENTICATED, "me:s3cr3t%40pass@")] {
            let world = world(person, access);
            for options in [&[][..], &["--intercept", "only.example.com"]] {
                let said = run(&world, user, options, SCRIPT);
                for (name, answer) in [
                    ("tunnel", "200 GET /tunnel at 93.184.216.34:443"),
                    ("plain", "200 GET /plain at 93.184.216.34:80"),
                    ("over", "200 GET /over at 93.184.216.34:80"),
                    ("over-tls", "200 GET /over-tls at 93.184.216.34:443"),
                    ("direct", "200 GET /direct at 93.184.216.34:443"),
                    ("secret", "200 GET /secret at 93.184.216.35:443"),
                    ("refused-plain", "403 <!DOCTYPE"),
                    (
                        "refused",
                        "502 pinfold: forbidden.example.com:443 cannot be reached: the proxy \
                        of this host answered 403 Forbidden",
                    ),
                    ("gone", "503 <!DOCTYPE"),
                    ("denied", "403 pinfold: no rule allows denied.example.com."),
                    (
                        "port",
                        "502 pinfold: only.example.com:8080 cannot be reached: the proxy of \
                        this host answered 403 Forbidden",
                    ),
                ] {
                    assert!(said.line(name).starts_with(answer), "{name}: {}", said.out);
                }
                assert!(said.line("over").contains("Via: 1.1"), "{}", said.out);
                assert!(!said.line("direct").contains("Via: 1.1"), "{}", said.out);
            }
            assert!(world.seen().contains("svc-real-"), "{}", world.seen());
            assert!(!world.asked().contains("only.example.com"), "{}", world.asked());
            let ask = "curl -sS -m10 -i $URL/v1/models -H x-api-key:$KEY";
            let agent = behind(&world, user, &["run", "probe", "--", "-c", ask]).output().unwrap();
            Said::of(agent).has(&["200 OK", "GET /v1/models at 93.184.216.34:443"]);
            assert!(world.seen().contains("sk-ant-api03-REAL"), "{}", world.seen());
            for secret in SECRETS {
                assert!(!world.seen().contains(secret) && !world.audit().contains(secret));
            }
        }
    }
}

#[test]
fn the_proxys_password_is_not_inside_and_is_asked_for_where_it_is_missing() {
    let script = format!(
        "curl -sS -m10 http://only.example.com/; curl -sS -m10 https://only.example.com/\n\
         env; python3 search.py {}; python3 search.py {}; mkfifo go; echo > searched; cat go",
        disguised(SECRETS[0]),
        disguised(SECRETS[2]),
    );
    for person in people_with("squid's password", &["squid"]) {
        let world = world(person, AUTHENTICATED);
        world.stage.write("ws/search.py", MEMORY_SEARCH);
        let mut run = behind(&world, "me:s3cr3t%40pass@", &["run", "--", "sh", "-c", &script]);
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        await_file(&world, "searched");
        if rustix::process::geteuid().is_root() {
            for (pid, secret) in descendants(run.id())
                .into_iter()
                .flat_map(|pid| SECRETS.map(|secret| (pid, secret)))
            {
                let (searched, at) = search_memory(pid, secret);
                assert!(searched > 0 && at.is_empty(), "{secret} {at:?}");
            }
        }
        std::fs::write(world.stage.path("ws/go"), "").unwrap();
        let said = Said::of(run.wait_with_output().unwrap());
        said.has(&["GET / at 93.184.216.34:80", "GET / at 93.184.216.34:443"]);
        assert_eq!(said.out.matches("and found []").count(), 2, "{}", said.out);
        for secret in SECRETS {
            assert!(!said.out.contains(secret) && !world.audit().contains(secret), "{}", said.out);
        }
        for user in ["", "me:wrong@"] {
            let said = self::run(&world, user, &[], SCRIPT);
            for name in ["tunnel", "plain"] {
                let line = said.line(name);
                let hint = "wants a user and a password, or others: set $HTTPS_PROXY";
                assert!(line.starts_with("502 pinfold: ") && line.contains(hint), "{line}");
            }
            assert!(said.line("direct").starts_with("200"), "{}", said.out);
        }
    }
}
