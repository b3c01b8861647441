//! Services of this machine, rules for live sessions, and authorities that the caller trusts.

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
        run.env("SSL_CERT_FILE", "/no/such/file").args(["--", "true"]);
        let said = Said::of(run.output().unwrap());
        assert!(said.ok && said.err.contains("SSL_CERT_FILE does not count"), "{}", said.err);
    }
}
