//! Connections that no rule names wait for an answer, and no sandbox gives, forges or hides one.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, Tmux, executable, installed, people, skip};

use super::World;
use super::world::{Said, people_with};

/// Gives each question to the file `questions`, and answers what the file `answer` says.
const COMMAND: &str = r#"#!/bin/sh
question=$(cat)
printf '%s\n' "$question" >>"$HOME/questions"
sleep "$(cat "$HOME/delay" 2>/dev/null || echo 0)"
cat "$HOME/answer"
"#;
pub(super) const CURL: &str = "curl -sS -m 20";

/// A world whose user is asked by a command, with these lines in `[ask]`.
pub(super) fn world(user: pinfold_testkit::User, lines: &str) -> World {
    let world = World::new(user, &["web", "internal"]);
    let command = world.stage.write("home/ask", COMMAND);
    fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).unwrap();
    world.config(&format!("[ask]\ncommand = [\"{}\"]\n{lines}", command.display()));
    world
}

pub(super) fn answer(world: &World, answer: &str) {
    world.stage.write("home/answer", answer);
    world.stage.write("home/questions", "");
}

pub(super) fn questions(world: &World) -> Vec<serde_json::Value> {
    let said = fs::read_to_string(world.stage.path("home/questions")).unwrap();
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn answers_count_once_for_the_session_always_or_say_why_not() {
    for user in people_with("answers_count", &[]) {
        let world = world(user, "");
        let get = format!("{CURL} http://web.example.com/x");
        // Each connection of its own: asked twice.
        answer(&world, "once");
        let said = world.shell(&[], &format!("{get} -o a; {get} -o b; cmp a b && echo same"));
        said.has(&["same"]);
        let asked = questions(&world);
        assert_eq!(asked.len(), 2, "{asked:?}");
        let data = &asked[0]["data"];
        assert_eq!(data["connection"]["host"], "web.example.com");
        assert_eq!(
            (&data["connection"]["port"], &data["connection"]["protocol"]),
            (&80.into(), &"http".into())
        );
        assert!(
            data["answers"]["once"].as_str().unwrap().starts_with("http://127.0.0.1:"),
            "{data}"
        );

        answer(&world, "session");
        world.shell(&[], &format!("{get} -o a; {get} -o b; cmp a b && echo same")).has(&["same"]);
        assert_eq!(questions(&world).len(), 1);

        answer(&world, "deny use the \u{1b}[2Jmirror\r\nx-evil: 1");
        let said = world.shell(&[], &format!("{get} -D -; {get}; {CURL} https://web.example.com/"));
        assert!(
            said.out.matches("denied by its user: use the \\e[2Jmirror\\r\\nx-evil: 1").count()
                >= 3,
            "{said:?}"
        );
        assert!(!said.out.contains("\nx-evil"), "{said:?}");
        // A denial is for one port: TLS was asked about by itself.
        assert_eq!(questions(&world).len(), 2);

        answer(&world, "always");
        world.shell(&[], &format!("{get} -o a -w '%{{http_code}}'")).has(&["200"]);
        answer(&world, "deny");
        let said = world.shell(&[], &format!("{get} -o a -w '%{{http_code}} '; {CURL} -o b -w '%{{http_code}}' http://web.example.com:8080/; {CURL} -o b -w ' %{{http_code}}' http://deep.web.example.com/"));
        said.has(&["200 403 403"]);
        let rules = world.pinfold(&["approvals", "rules"]).output().unwrap();
        let rules = Said::of(rules).out;
        assert!(
            rules.starts_with("1  reach web.example.com:80 from /") && rules.lines().count() == 1,
            "{rules}"
        );
        assert!(world.pinfold(&["approvals", "forget", "1"]).status().unwrap().success());
        assert!(!world.shell(&[], &format!("{get} -f")).ok);
        let audit = world.audit();
        assert!(audit.contains("\"reason\":\"always: reach web.example.com:80 from /"), "{audit}");
        assert!(
            audit.contains("\"connection-request\"") && audit.contains("\"by\":\"command\""),
            "{audit}"
        );
    }
}

#[test]
fn many_connections_to_one_host_are_one_question() {
    for user in people_with("many_connections", &[]) {
        let world = world(user, "");
        world.stage.write("home/delay", "2");
        answer(&world, "session");
        let program = "
import threading
results = []
def one():
    try: results.append(status(speak(connect(('web.example.com', 80)), 'GET / HTTP/1.1\\r\\nHost: web.example.com\\r\\nConnection: close\\r\\n\\r\\n')))
    except OSError: pass
threads = [threading.Thread(target=one) for _ in range(300)]
[it.start() for it in threads]; [it.join() for it in threads]
print('answered', results.count('200'), 'of', len(results), len(results) > 10)
";
        let said = world.python(&[], program);
        // On a busy machine some clients give up sooner; all that wait have the answer.
        let answered: Vec<&str> = said.line("answered").split(' ').collect();
        assert!(answered[0] == answered[2] && answered[3] == "True", "{said:?}");
        assert_eq!(questions(&world).len(), 1);
    }
}

#[test]
fn without_anybody_to_ask_it_is_refused_at_once_and_a_repository_asks_nobody() {
    for user in people_with("nobody", &[]) {
        let world = World::new(user, &["web"]);
        let get = format!(
            "{CURL} -o /dev/null -w '%{{http_code}} %{{time_total}}' -x $http_proxy http://web.example.com/"
        );
        for options in
            [&["--ask"][..], &["--ask", "--unattended", "--workspace", "shared_mount"], &[]]
        {
            let started = Instant::now();
            let said = world.shell(options, &get);
            said.has(&["403 0."]);
            assert!(started.elapsed() < Duration::from_secs(10), "{said:?}");
            assert!(said.refusals()[0].starts_with("no rule allows web.example.com"), "{said:?}");
            assert!(!world.asked().contains("web.example.com"), "nothing of it was looked up");
        }
        world.stage.write("ws/sandbox.json", r#"{"ask": {"command": ["/bin/echo", "always"]}}"#);
        let said = world.shell(&[], "true");
        assert!(!said.ok && said.err.contains("ask"), "{said:?}");
    }
}

#[test]
fn silence_and_a_way_that_fails_refuse() {
    for user in people_with("silence", &[]) {
        let slow = world(user, "timeout = \"1s\"\n");
        slow.stage.write("home/delay", "30");
        answer(&slow, "once");
        let get = format!("{CURL} http://web.example.com/");
        let said = slow.shell(&[], &format!("{get}; {get}"));
        assert_eq!(said.out.matches("nobody answered within 1s").count(), 2, "{said:?}");
        assert_eq!(questions(&slow).len(), 1, "it is not asked again at once");
        for script in ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho yes\n", "#!/bin/sh\nkill -9 $$\n"] {
            slow.stage.write("home/ask", script);
            let started = Instant::now();
            let said = slow.shell(&[], &get);
            said.has(&["no rule allows web.example.com"]);
            assert!(started.elapsed() < Duration::from_secs(15), "{said:?}");
            let audit = slow.audit();
            assert!(audit.contains("a question did not reach its user"), "{audit}");
        }
    }
}

fn webhook(world: &World) -> Child {
    let program = "
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['content-length'])).decode()
        print('\\t'.join(map(str, [self.headers['webhook-id'], self.headers['webhook-timestamp'], self.headers['webhook-signature'], body])), flush=True)
        self.send_response(204); self.end_headers()
    def log_message(self, *args): pass
http.server.HTTPServer(('127.0.0.1', 7070), Handler).serve_forever()
";
    let mut hook = world.outside("python3", &["-c", program]);
    let hook = hook.stdout(Stdio::piped()).spawn().unwrap();
    let probe = "import socket,time\nwhile socket.socket().connect_ex(('127.0.0.1', 7070)): time.sleep(0.05)";
    assert!(world.outside("python3", &["-c", probe]).status().unwrap().success());
    hook
}

/// A line of a child's output.
pub(super) fn line_of(child: &mut Child) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    let output = child.stdout.as_mut().unwrap();
    while output.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

#[test]
fn webhook_is_signed_and_its_links_answer_once_from_the_host_alone() {
    for user in people_with("webhook", &[]) {
        let world = World::new(user, &["web"]);
        world.set_secret("ask-hook", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        world.config("[ask]\nwebhook = \"http://127.0.0.1:7070/hook\"\nwebhook_secret = \"ask-hook\"\nport = 7707\n");
        let mut hook = webhook(&world);
        let mut run = world.pinfold(&[
            "run",
            "--",
            "sh",
            "-c",
            &format!("{CURL} http://web.example.com/ -o /dev/null -w '%{{http_code}}'"),
        ]);
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = line_of(&mut hook);
        let fields: Vec<&str> = said.split('\t').collect();
        let [id, time, signature, body] = fields[..] else { panic!("{said}") };
        let check = "
import base64, hashlib, hmac, sys
id, time, body = sys.argv[1:]
key = base64.b64decode('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')
print('v1,' + base64.b64encode(hmac.new(key, f'{id}.{time}.{body}'.encode(), hashlib.sha256).digest()).decode())
";
        let expected =
            Said::of(world.outside("python3", &["-c", check, id, time, body]).output().unwrap());
        assert_eq!(expected.out.trim(), signature);
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        let link = body["data"]["answers"]["once"].as_str().unwrap().to_owned();
        assert!(link.starts_with("http://127.0.0.1:7707/"), "{link}");
        let fetch = |options: &[&str], link: &str| {
            let args = [&["-sS", "-m", "10"], options, &[link]].concat();
            Said::of(world.outside("curl", &args).output().unwrap()).out
        };
        // Looking at it answers nothing; a link for another question answers nothing; then once.
        assert!(fetch(&[], &link).contains("web.example.com:80"));
        let token = link.rsplit('/').nth(1).unwrap();
        let forged = link.replace(token, &"A".repeat(43));
        assert!(fetch(&["-X", "POST"], &forged).contains("no question that waits"));
        let elsewhere = link.replace("/once", "/always").replacen("7707/", "7707/0", 1);
        assert!(!fetch(&["-X", "POST"], &elsewhere).contains("Your answer counts"));
        assert!(fetch(&["-X", "POST"], &link).contains("Your answer counts"));
        assert!(!fetch(&["-X", "POST"], &link).contains("Your answer counts"));
        assert_eq!(Said::of(run.wait_with_output().unwrap()).out, "200");

        // From a sandbox no rule leads there: by no name of this machine, and by no name that leads to it. The
        // webhook's own port, which such rules do open, is the control.
        let script = "get() { curl -sS -m 5 -X POST -o /dev/null -w '%{http_code} ' --noproxy '' \"$@\"; }
            for name in localhost 127.0.0.1 0.0.0.0 host.pinfold host.docker.internal loopback.example.net mapped.example.net; do
            get http://$name:7707/x/y/once; get -x $http_proxy http://$name:7707/x/y/once; done; echo; get -d x http://host.pinfold:7070/; get -d x http://0.0.0.0:7070/";
        let mut options = Vec::new();
        for host in
            ["localhost", "127.0.0.1", "0.0.0.0", "loopback.example.net", "mapped.example.net"]
        {
            for port in ["7707", "7070"] {
                options.extend(["--allow-internal-host".to_owned(), format!("{host}:{port}")]);
            }
        }
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        // Another session answers at the port as long as its question waits.
        let mut other =
            world.pinfold(&["run", "--", "sh", "-c", &format!("{CURL} http://other.example.org/")]);
        let other = other.stdout(Stdio::piped()).spawn().unwrap();
        let said = line_of(&mut hook);
        let body: serde_json::Value =
            serde_json::from_str(said.rsplit('\t').next().unwrap()).unwrap();
        let said = world.shell(&options, script);
        let (tried, control) = said.out.split_once('\n').unwrap();
        assert!(
            tried.split_whitespace().all(|it| it == "000" || it == "502" || it == "403"),
            "{said:?}"
        );
        assert_eq!(control.trim(), "204 204", "{said:?}");
        line_of(&mut hook);
        line_of(&mut hook);
        let deny = body["data"]["answers"]["deny"].as_str().unwrap();
        assert!(fetch(&["-d", "reason=not now"], deny).contains("Your answer counts"));
        let said = Said::of(other.wait_with_output().unwrap());
        assert!(said.out.contains("denied by its user: not now"), "{said:?}");
        hook.kill().unwrap();
        hook.wait().unwrap();
    }
}

#[test]
fn sessions_share_the_port_of_answer_links_and_a_foreign_program_gets_none() {
    for user in people_with("port", &[]) {
        let world = world(user, "port = 7707\n");
        world.stage.write("home/delay", "1");
        answer(&world, "");
        let start = |host: &str| {
            let get = format!("{CURL} http://{host}/ -o /dev/null -w '%{{http_code}}'");
            let mut run = world.pinfold(&["run", "--", "sh", "-c", &get]);
            run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let wait_for = |count: usize| {
            let started = Instant::now();
            while questions(&world).len() < count {
                assert!(started.elapsed() < Duration::from_secs(20), "no question comes");
                std::thread::sleep(Duration::from_millis(50));
            }
            questions(&world)[count - 1]["data"]["answers"]["once"].as_str().map(str::to_owned)
        };
        let first = start("web.example.com");
        let of_first = wait_for(1).unwrap();
        let second = start("other.example.org");
        let of_second = wait_for(2).unwrap();
        let post = |link: &str| {
            Said::of(world.outside("curl", &["-sS", "-X", "POST", link]).output().unwrap()).out
        };
        // The first has the port, and passes on what is for the second.
        assert!(post(&of_second).contains("Your answer counts"));
        assert_eq!(Said::of(second.wait_with_output().unwrap()).out, "200");
        assert!(post(&of_first).contains("Your answer counts"));
        assert_eq!(Said::of(first.wait_with_output().unwrap()).out, "200");

        // Another program that has it would see the links.
        let squat = "import socket,sys,time\ns=socket.socket()\ns.setsockopt(1,2,1)\ns.bind(('127.0.0.1',7707))\ns.listen()\nprint('x',flush=True)\ntime.sleep(60)";
        let mut squatter = world.outside("python3", &["-c", squat]);
        let mut squatter = squatter.stdout(Stdio::piped()).spawn().unwrap();
        line_of(&mut squatter);
        answer(&world, "once");
        let third = start("web.example.com");
        assert_eq!(wait_for(1), None, "no links are sent");
        assert_eq!(Said::of(third.wait_with_output().unwrap()).out, "200");
        assert!(world.audit().contains("another program's"));
        squatter.kill().unwrap();
        squatter.wait().unwrap();
    }
}

#[test]
fn question_at_the_terminal_shows_the_real_name_and_its_answer_reaches_the_program() {
    let pinfold = executable();
    if !installed("tmux") || !installed("curl") {
        return skip("a question about a host", "tmux or curl is not installed");
    }
    for user in people() {
        let stage = Stage::new(user);
        let tmux = Tmux::start(&stage, &stage.workspace(), &[]);
        // The first letter is Cyrillic.
        stage.write(
            "ws/get.sh",
            "echo above; curl -sS -m 20 http://\u{430}pple.example/; echo status $?\n",
        );
        tmux.line(&format!("clear; {pinfold} run --ask -- sh get.sh"));
        let screen = tmux.wait_for("[y]es, once");
        assert!(
            screen.contains("xn--pple-43d.example:80") && screen.contains("in the clear (HTTP)"),
            "{screen}"
        );
        assert!(screen.contains("not ASCII") && !screen.contains('\u{430}'), "{screen}");
        assert!(
            screen.contains("a host that no rule names") && !screen.contains("above"),
            "{screen}"
        );
        tmux.keys(&["n"]);
        let screen = tmux.wait_for("status 0");
        assert!(screen.contains("denied by its user") && screen.contains("above"), "{screen}");
    }
}

#[test]
fn approvals_command_shows_and_answers_questions_about_hosts() {
    for user in people_with("approvals", &[]) {
        let world = World::new(user, &["web"]);
        let script = format!(
            "while [ ! -f go ]; do sleep 0.05; done; {CURL} http://web.example.com/ -o /dev/null -w '%{{http_code}}' >status"
        );
        let said = Said::of(
            world
                .pinfold(&["run", "-d", "--ask", "--name", "n", "--", "sh", "-c", &script])
                .output()
                .unwrap(),
        );
        assert!(said.ok, "{said:?}");
        let mut watch = world.pinfold(&["approvals", "--watch", "--json", "--session", "n"]);
        let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 200];
        let length = watch.stderr.as_mut().unwrap().read(&mut said).unwrap();
        assert!(String::from_utf8_lossy(&said[..length]).contains("wait for an answer"));
        world.stage.write("ws/go", "");
        let asked: serde_json::Value = serde_json::from_str(&line_of(&mut watch)).unwrap();
        assert_eq!(asked["connection"]["host"], "web.example.com", "{asked}");
        let listed = Said::of(world.pinfold(&["approvals"]).output().unwrap()).out;
        assert!(listed.contains("connect to web.example.com:80"), "{listed}");
        let id = asked["id"].to_string();
        assert!(
            world.pinfold(&["approvals", "approve", &id, "--session"]).status().unwrap().success()
        );
        let started = Instant::now();
        let status = world.stage.path("ws/status");
        while fs::read_to_string(&status).unwrap_or_default().is_empty() {
            assert!(started.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(fs::read_to_string(&status).unwrap(), "200");
        watch.kill().unwrap();
        watch.wait().unwrap();
        world.pinfold(&["stop", "n"]).status().unwrap();
    }
}

/// A command that asks at once asks before the watcher can have come to its session.
#[test]
fn watcher_of_all_sessions_is_asked_by_each_from_its_beginning() {
    for user in people_with("watcher_of_all", &[]) {
        let world = World::new(user, &["web"]);
        let mut watch = world.pinfold(&["approvals", "--watch", "--json"]);
        let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 200];
        let length = watch.stderr.as_mut().unwrap().read(&mut said).unwrap();
        assert!(String::from_utf8_lossy(&said[..length]).contains("requests of all sessions wait"));
        let get = format!("{CURL} http://web.example.com/ -o /dev/null -w '%{{http_code}}'");
        let run = || {
            let mut run = world.pinfold(&["run", "--ask", "--", "sh", "-c", &get]);
            run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            run.spawn().unwrap()
        };
        let answer = |asked: &str, words: &[&str]| {
            let asked: serde_json::Value = serde_json::from_str(asked).unwrap();
            assert_eq!(asked["connection"]["host"], "web.example.com", "{asked}");
            let id = format!("{}:{}", asked["session"].as_str().unwrap(), asked["id"]);
            let (first, more) = words.split_first().unwrap();
            let mut said = world.pinfold(&["approvals", first, &id]);
            assert!(said.args(more).status().unwrap().success());
        };
        let runs = [run(), run()];
        let mut settled = 0;
        while settled < runs.len() {
            match line_of(&mut watch) {
                line if line.contains("settled") => settled += 1,
                asked => answer(&asked, &["approve"]),
            }
        }
        for run in runs {
            let said = Said::of(run.wait_with_output().unwrap());
            assert_eq!(said.out, "200", "{said:?}");
        }
        let denied = run();
        answer(&line_of(&mut watch), &["deny", "--reason", "not today"]);
        let said = Said::of(denied.wait_with_output().unwrap());
        assert_eq!(said.out, "403", "{said:?}");

        // With the watcher gone, however it went, nobody can be asked.
        watch.kill().unwrap();
        watch.wait().unwrap();
        let began = Instant::now();
        let said = Said::of(run().wait_with_output().unwrap());
        assert!(!said.out.contains("200") && began.elapsed() < Duration::from_secs(10), "{said:?}");
    }
}
