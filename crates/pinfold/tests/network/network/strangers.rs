//! Hosts that serve content of strangers: no other of their names is asked for in TLS with the allowed one.

use super::World;
use super::world::people_with;

/// Requests on connections to the allowed host, made directly and by the proxy; `/smuggled` must never arrive.
const PROGRAM: &str = r"
ALLOWED, OTHER = 'raw.githubusercontent.com', 'gist.githubusercontent.com'
END = 'Connection: close\r\n\r\n'
def direct(name): return tls(connect((ALLOWED, 443), 3), name)
def by_proxy(name): return tls(tunnel(ALLOWED + ':443', 3)[1], name)
CASES = {
  'honest': (ALLOWED, f'GET /honest HTTP/1.1\r\nHost: {ALLOWED}\r\n' + END),
  'host': (ALLOWED, f'GET /smuggled HTTP/1.1\r\nHost: {OTHER}\r\n' + END),
  'absolute': (ALLOWED, f'GET https://{OTHER}/smuggled HTTP/1.1\r\nHost: {ALLOWED}\r\n' + END),
  'second': (ALLOWED, f'GET /first HTTP/1.1\r\nHost: {ALLOWED}\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: {OTHER}\r\n' + END),
  'name': (OTHER, f'GET /smuggled HTTP/1.1\r\nHost: {ALLOWED}\r\n' + END),
  'both': (OTHER, f'GET /smuggled HTTP/1.1\r\nHost: {OTHER}\r\n' + END),
}
for way, begin in {'direct': direct, 'proxy': by_proxy}.items():
    for case, (name, text) in CASES.items():
        answer = attempt(lambda: speak(begin(name), text))
        print(way, case, *[part[:3] for part in answer.split('HTTP/1.1 ')[1:]] or [status(answer)])
";

#[test]
fn no_other_name_of_a_shared_host_is_asked_for_within_tls() {
    for user in people_with("shared hosts", &[]) {
        let world = World::new(user, &["web"]);
        let allow = ["--allow-host", "raw.githubusercontent.com"];
        let said = world.python(&allow, PROGRAM);
        assert!(said.ok, "{said:?}");
        for way in ["direct", "proxy"] {
            assert_eq!(said.line(&format!("{way} honest")), "200", "{said:?}");
            for case in ["host", "absolute"] {
                assert_eq!(said.line(&format!("{way} {case}")), "421", "{said:?}");
            }
            assert_eq!(said.line(&format!("{way} second")), "200 421", "{said:?}");
            for case in ["name", "both"] {
                assert!(!said.line(&format!("{way} {case}")).contains("200"), "{said:?}");
            }
        }
        let seen = world.seen();
        assert!(seen.contains("/honest") && !seen.contains("smuggled"), "{seen}");

        // A rule that leaves TLS alone is the control: there the server serves the other name.
        let said = world.python(&["--allow-host", "raw.githubusercontent.com/tls"], PROGRAM);
        assert_eq!(said.line("direct host"), "200", "{said:?}");
        assert!(world.seen().contains("smuggled"));
    }
}
