//! What a sandbox, another user of the machine and a service that carries questions would do with them.

use std::process::Stdio;
use std::time::{Duration, Instant};

use pinfold_testkit::{installed, skip};

use super::questions::{CURL, answer, line_of, questions, world};
use super::world::{Said, people_with};

/// What a sandbox would try: bury the user in questions, so that one is answered without being read.
#[test]
fn flood_of_questions_meets_caps_and_hides_none() {
    for user in people_with("flood", &[]) {
        let world = world(user, "timeout = \"2s\"\n");
        world.stage.write("home/delay", "60");
        answer(&world, "deny");
        let program = "
import threading
said = []
def one(host):
    try:
        said.append(speak(connect((host, 80)), 'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'))
    except Exception as error:
        said.append(type(error).__name__)
hosts = [f'a{n}.below.example.org' for n in range(100)] + [f'h{n}.site{n}.example' for n in range(100)]
threads = [threading.Thread(target=one, args=(host,)) for host in hosts]
[it.start() for it in threads]; [it.join() for it in threads]
print('late', sum('nobody answered' in it for it in said))
";
        let said = world.python(&[], program);
        let asked = questions(&world);
        assert!(asked.len() <= 8, "{} questions", asked.len());
        let of_site = asked.iter().filter(|it| {
            it["data"]["connection"]["host"].as_str().unwrap().ends_with(".example.org")
        });
        assert!(of_site.count() <= 5, "{asked:?}");
        assert_eq!(said.line("late"), asked.len().to_string(), "{said:?}");
        assert!(!world.asked().contains("below"), "nothing is looked up before the answer");
    }
}

/// What approving a name does not do: open this machine, its networks, or another name.
#[test]
fn approved_name_opens_neither_this_machine_nor_another_name() {
    for user in people_with("approved_name", &[]) {
        let world = world(user, "");
        answer(&world, "session");
        let get = |url: &str| format!("{CURL} -o /dev/null -w '%{{http_code}} ' {url}; ");
        let script = [
            // Names that lead to this machine, its networks and metadata services.
            get("http://loopback.example.net/"),
            get("http://metadata.example.net/"),
            get("http://private.example.net/"),
            get("http://mapped.example.net/"),
            // What is never asked about.
            get("http://169.254.169.254/"),
            get("http://10.1.2.3/"),
            get("http://host.pinfold/"),
            // Another name inside an approved connection.
            get("--connect-to ::web.example.com: http://other.example.org/"),
        ]
        .concat();
        let said = world.shell(&[], &script);
        assert_eq!(said.out.trim(), "403 403 403 403 403 403 403 421", "{said:?}");
        for question in questions(&world) {
            let host = question["data"]["connection"]["host"].as_str().unwrap().to_owned();
            assert!(host.ends_with(".net") || host == "web.example.com", "{host} was asked about");
        }
    }
}

/// What another user of the machine would do: wait for the port of answer links, and be sent some.
#[test]
fn port_that_another_program_takes_from_a_killed_session_gets_no_links() {
    for user in people_with("taken port", &[]) {
        let world = world(user, "port = 7707\n");
        world.stage.write("home/delay", "60");
        answer(&world, "");
        let start = |script: &str| {
            let mut run = world.pinfold(&["run", "--", "sh", "-c", script]);
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
        let mut first = start(&format!("{CURL} http://web.example.com/"));
        wait_for(1).unwrap();
        // It shares the port of the first, and asks again later.
        let mut second = start(&format!(
            "curl -sS -m 1 http://other.example.org/; touch asked; while [ ! -f go ]; do sleep 0.05; done; {CURL} http://deep.web.example.com/"
        ));
        assert!(wait_for(2).is_some());
        let started = Instant::now();
        // Until then the second takes the port over when the first dies, as it should.
        let waiting = || Said::of(world.pinfold(&["approvals", "--json"]).output().unwrap()).out;
        while !world.stage.path("ws/asked").exists() || waiting().lines().count() != 1 {
            assert!(started.elapsed() < Duration::from_secs(20), "the question is not withdrawn");
            std::thread::sleep(Duration::from_millis(50));
        }
        first.kill().unwrap();
        first.wait().unwrap();
        let squat = "import socket,time\nend=time.time()+20\nwhile time.time()<end:\n  s=socket.socket()\n  s.setsockopt(1,2,1)\n  try: s.bind(('127.0.0.1',7707)); s.listen(); break\n  except OSError: pass\nprint('x',flush=True)\ninput()";
        let mut squatter = world.outside("python3", &["-c", squat]);
        let mut squatter = squatter.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        assert_eq!(line_of(&mut squatter), "x", "the port is not free");
        // The killed session has left the file that names its port.
        world.stage.write("ws/go", "");
        assert_eq!(wait_for(3), None, "links are sent");
        assert!(world.audit().contains("another program's"));
        squatter.kill().unwrap();
        squatter.wait().unwrap();
        second.kill().unwrap();
        second.wait().unwrap();
    }
}

/// What another user of the machine, and the service itself, would do with the command of the guide.
#[test]
fn command_of_the_guide_shows_links_to_nobody_and_takes_no_answer_of_the_service() {
    if !installed("jq") {
        return skip("the command of the guide", "jq is not installed");
    }
    let guide = include_str!("../../../../../docs/guides/ask.md");
    let script = guide.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let script = script.replace("https://ntfy.sh/", "http://127.0.0.1:7070/");
    let service = "
import glob, http.server
def arguments(path):
    try:
        return open(path, 'rb').read()
    except OSError: # it has ended
        return b''
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['content-length'])).decode()
        seen = b''.join(map(arguments, glob.glob('/proc/[0-9]*/cmdline')))
        seen = [it for it in (b'77' b'19/', b'secret' b'-topic') if it in seen]
        print('\\t'.join(map(str, [self.path, self.headers['title'], self.headers['actions'], seen, body.replace('\\n', '|')])), flush=True)
        self.send_response(200); self.end_headers(); self.wfile.write(b'always')
    def log_message(self, *args): pass
http.server.HTTPServer(('127.0.0.1', 7070), Handler).serve_forever()
";
    for user in people_with("the guide", &[]) {
        let world = world(user, "port = 7719\ntimeout = \"4s\"\n");
        world.stage.write("home/ask", script.as_str());
        let mut service = world.outside("python3", &["-c", service]);
        let mut service = service.stdout(Stdio::piped()).spawn().unwrap();
        let probe = "import socket,time\nwhile socket.socket().connect_ex(('127.0.0.1', 7070)): time.sleep(0.05)";
        assert!(world.outside("python3", &["-c", probe]).status().unwrap().success());
        let said = world.shell(&[], &format!("{CURL} http://web.example.com/"));
        assert!(said.out.contains("nobody answered within 4s"), "{said:?}");
        let line = line_of(&mut service);
        let fields: Vec<&str> = line.split('\t').collect();
        assert_eq!(fields[0], "/my-secret-topic");
        assert!(fields[1].contains("a host that no rule names"), "{line}");
        let [_, once, _] = fields[2].split("view, ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert!(once.contains("http://127.0.0.1:7719/") && once.contains("/once;"), "{line}");
        assert_eq!(fields[3], "[]", "others see arguments");
        assert_eq!(fields[4], "web.example.com:80|in the clear (HTTP)");
        service.kill().unwrap();
        service.wait().unwrap();
    }
}
