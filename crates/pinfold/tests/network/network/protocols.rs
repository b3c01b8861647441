//! Protocols in addition to plain requests, and runtimes that bring their own stack.

use pinfold_testkit::skip;

use super::World;
use super::world::{people_with, postgres};

/// Allowed hosts: one as it is, one whose TLS is ended outside.
const OPTIONS: [&str; 10] = [
    "--allow-host",
    "web.example.com:*",
    "--allow-host",
    "other.example.org:*",
    "--allow-host",
    "h2.example.com:*",
    "--allow-host",
    "db.example.org:5432",
    "--intercept",
    "web.example.com",
];

#[test]
fn websockets_work_in_the_clear_over_tls_and_where_tls_is_ended() {
    let program = "\
for name, port, secure in [('web.example.com', 80, False), ('web.example.com', 8080, False),
                           ('other.example.org', 443, True), ('web.example.com', 443, True)]:
    for way in ('handed over', 'by proxy'):
        if way == 'by proxy' and port != 8080:
            s = tunnel(f'{name}:{port}')[1]
        else:
            s = connect((name, port))
        if secure: s = tls(s, name)
        head = websocket(s, name).split('\\r\\n')[0]
        print(f'{name}:{port}', way, head, '|', frame(s), '|', frame(s, 'one'), '|', frame(s, 'two' * 30)[-3:])
";
    for user in people_with("WebSockets", &[]) {
        let world = World::new(user, &["web"]);
        let said = world.python(&OPTIONS, program);
        assert_eq!(said.err, "");
        assert_eq!(said.out.lines().count(), 8, "{}", said.out);
        for line in said.out.lines() {
            let expected = "HTTP/1.1 101 Switching Protocols | nothing none | echo one | two";
            assert!(line.ends_with(expected), "{line}");
        }
    }
}

/// What a client of gRPC does with HTTP/2: prior knowledge or ALPN, a body, and trailers.
const NODE: &str = r#"
const http2 = require("node:http2"), fs = require("node:fs");
const ca = fs.readFileSync("/etc/ssl/certs/ca-certificates.crt");
function ask(url, path) {
  return new Promise((done) => {
    const session = http2.connect(url, { ca });
    session.on("error", (error) => done(`session ${error.code}`));
    const stream = session.request({ ":method": "POST", ":path": path, te: "trailers" });
    let status, body = 0, trailers = {}, text = "";
    stream.on("response", (headers) => (status = headers[":status"]));
    stream.on("data", (chunk) => { body += chunk.length; text += chunk.length < 200 ? chunk : ""; });
    stream.on("trailers", (headers) => (trailers = headers));
    stream.on("error", (error) => done(`stream ${error.code}`));
    stream.on("close", () => { session.close(); done(`${status} ${text.trim()} ${body} ${trailers["grpc-status"]}`); });
    stream.end(Buffer.alloc(300000));
  });
}
(async () => {
  for (const url of process.argv.slice(1)) {
    console.log(url, await ask(url, "/pkg.Service/Method"));
    const many = await Promise.all(Array.from({ length: 20 }, (_, n) => ask(url, n % 5 ? "/x" : "/big")));
    console.log("many", url, new Set(many.map((one) => one.split(" ")[0])).size, many.filter((one) => one.includes("8388608")).length);
  }
  for (const url of ["http://web.example.com/node", "https://web.example.com/node"])
    console.log("fetch", (await (await fetch(url)).text()).split("\n")[0]);
})();
"#;

#[test]
fn http2_with_trailers_works_for_node_and_curl() {
    for user in people_with("HTTP/2", &["node"]) {
        let world = World::new(user, &["web", "h2"]);
        let plain = world.run(
            &OPTIONS,
            &["node", "-e", NODE, "https://h2.example.com", "http://h2.example.com:8080"],
        );
        let intercepted = ["--intercept", "h2.example.com"];
        let options = [&OPTIONS[..], &intercepted].concat();
        let ended = world.run(&options, &["node", "-e", NODE, "https://h2.example.com"]);
        for (said, urls) in [
            (&plain, &["https://h2.example.com", "http://h2.example.com:8080"][..]),
            (&ended, &["https://h2.example.com"]),
        ] {
            assert_eq!(said.err, "");
            for url in urls {
                let answer = said.line(url);
                assert!(answer.starts_with("200 h2 h2.example.com"), "{url}: {answer}");
                assert!(answer.contains("te=trailers 300000"), "{url}: {answer}");
                assert!(answer.ends_with(" 0"), "{url}: no trailers: {answer}");
            }
            said.has(&[
                "fetch GET /node at 93.184.216.34:80",
                "fetch GET /node at 93.184.216.34:443",
            ]);
            for line in said.out.lines().filter(|line| line.starts_with("many")) {
                assert!(line.ends_with(" 1 4"), "{line}");
            }
        }
        let script = "curl -sS -m10 --http2 -w '%{http_version}\\n' https://h2.example.com/a\n\
            curl -sS -m10 --http1.1 -w '%{http_version}\\n' https://h2.example.com/a\n\
            curl -sS -m10 --noproxy '*' --http2-prior-knowledge -w '%{http_version}\\n' http://h2.example.com:8080/a\n";
        for options in [&OPTIONS[..], &options] {
            let said = world.shell(options, script);
            assert_eq!(said.err, "");
            let te = "te=undefined 0\n2\n";
            said.has(&[&format!("h2 h2.example.com {te}"), "http/1.1 h2.example.com 0\n1.1\n"]);
            said.has(&[&format!("h2 h2.example.com:8080 {te}")]);
        }
    }
}

#[test]
fn trailers_of_http1_are_carried_both_ways() {
    let program = "
def ask(name, port, secure, extra):
    s = connect((name, port))
    if secure: s = tls(s, name)
    head = f'POST /trailers HTTP/1.1\\r\\nHost: {name}\\r\\nConnection: close\\r\\nAuthorization: last\\r\\n{extra}'
    said = speak(s, head + 'Transfer-Encoding: chunked\\r\\nTrailer: X-Sum\\r\\n\\r\\n3\\r\\nabc\\r\\n0\\r\\nX-Sum: 7\\r\\n\\r\\n')
    print(port, 'trailer' if 'x-last: last' in said.lower().split('\\r\\n0\\r\\n')[-1] else said.replace('\\r\\n', ' '))
ask('web.example.com', 80, False, 'TE: trailers\\r\\n')
ask('web.example.com', 443, True, 'TE: trailers\\r\\n')
ask('web.example.com', 8080, False, '')
";
    for user in people_with("trailers", &[]) {
        let world = World::new(user, &["web"]);
        let said = world.python(&OPTIONS, program);
        assert!(said.out.starts_with("80 trailer\n443 trailer\n8080 HTTP/1.1 200"), "{}", said.out);
        let seen = world.seen();
        assert_eq!(seen.matches("\"trailers\": [\"x-sum: 7\"]").count(), 3, "{seen}");
        assert_eq!(seen.to_lowercase().matches("[\"te\", \"trailers\"]").count(), 2, "{seen}");
    }
}

const JAVA: &str = r#"
import java.net.*; import java.net.http.*; import java.nio.file.*; import java.security.*;
import java.security.cert.*; import javax.net.ssl.*;
public class Client {
  static void ask(HttpClient client, String url) {
    try {
      var request = HttpRequest.newBuilder(URI.create(url)).build();
      var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
      System.out.println(answer.statusCode() + " " + answer.body().split("\n")[0]);
    } catch (Exception e) { System.out.println(url + " " + e); }
  }
  public static void main(String[] args) throws Exception {
    ask(HttpClient.newHttpClient(), "http://web.example.com/java");
    ask(HttpClient.newHttpClient(), "https://web.example.com/java");
    var store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    int number = 0;
    try (var file = Files.newInputStream(Path.of("/etc/ssl/certs/ca-certificates.crt"))) {
      for (var one : CertificateFactory.getInstance("X.509").generateCertificates(file))
        store.setCertificateEntry("c" + number++, one);
    }
    var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    var tls = SSLContext.getInstance("TLS");
    tls.init(null, trust.getTrustManagers(), null);
    ask(HttpClient.newBuilder().sslContext(tls).build(), "https://other.example.org/java");
  }
}
"#;

#[test]
fn java_works_through_a_tunnel_and_where_tls_is_ended() {
    for user in people_with("Java", &["javac"]) {
        let world = World::new(user, &["web"]);
        world.stage.write("ws/Client.java", JAVA);
        let said = world
            .run(&OPTIONS, &["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "Client.java"]);
        assert_eq!(said.err, "");
        assert_eq!(
            said.out,
            "200 GET /java at 93.184.216.34:80\n200 GET /java at 93.184.216.34:443\n\
             200 GET /java at 93.184.216.35:443\n"
        );
    }
}

#[test]
fn psql_reaches_a_database_by_name_with_and_without_interception() {
    if postgres().is_none() {
        return skip("psql", "PostgreSQL's server is not installed");
    }
    // One user is enough for a server that takes seconds to make.
    let Some(user) = people_with("psql", &["psql"]).pop() else { return };
    let world = World::new(user, &["postgres"]);
    let script = "for mode in 'sslmode=require' \
        'sslmode=verify-full sslrootcert=/etc/ssl/certs/ca-certificates.crt'; do \
        psql \"host=db.example.org user=me dbname=postgres connect_timeout=10 $mode\" -tA \
        -c 'select ssl from pg_stat_ssl where pid = pg_backend_pid()' \
        -c \"select count(*), sum(length(repeat('x', 1000))) from generate_series(1, 5000)\"; done";
    let said = world.shell(&OPTIONS, script);
    assert_eq!((said.err.as_str(), said.out.as_str()), ("", "t\n5000|5000000\nt\n5000|5000000\n"));
    let said = world.shell(&["--allow-host", "db.example.org"], script);
    assert!(said.refusals()[0].contains("--allow-host db.example.org:5432"), "{}", said.err);
    assert_eq!(said.refusals().len(), 1, "{}", said.err);
}
