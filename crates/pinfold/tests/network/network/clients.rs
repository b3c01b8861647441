//! Programs that people use, as they come.

use super::World;
use super::world::people_with;

/// The ways in which a client may come: handed over by the kernel, and by the proxy's variables.
const WAYS: [(&str, &str); 2] = [
    ("handed over", "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY all_proxy ALL_PROXY\n"),
    ("by proxy", ""),
];

#[test]
fn curl_and_wget_and_python_work_as_they_come() {
    for user in people_with("curl, wget and python", &["wget"]) {
        let world = World::new(user, &["web"]);
        let options = ["--allow-host", "web.example.com", "--allow-host", "other.example.org:8080"];
        for (way, prelude) in WAYS {
            let script = format!(
                "{prelude}\
                 for url in http://web.example.com/curl https://web.example.com/curl-tls \
                 http://other.example.org:8080/port; do curl -sS -m10 $url | head -1; done\n\
                 head -c 3000000 /dev/zero | curl -sS -m10 --data-binary @- -o big -w '%{{http_code}}\\n' \
                 https://web.example.com/big\n\
                 wc -c < big\n\
                 wget -q -T10 -O - https://web.example.com/wget | head -1\n\
                 python3 -c 'import urllib.request as u; \
                 print(u.urlopen(\"https://web.example.com/python\").readline().decode())'\n"
            );
            for intercept in [&[][..], &["--intercept", "web.example.com"]] {
                let said = world.shell(&[&options, intercept].concat(), &script);
                assert_eq!(said.err, "", "{way}");
                said.has(&[
                    "GET /curl at 93.184.216.34:80\n",
                    "GET /curl-tls at 93.184.216.34:443\n",
                    "GET /port at 93.184.216.35:8080\n",
                    "200\n",
                    "GET /wget at 93.184.216.34:443\n",
                    "GET /python at 93.184.216.34:443\n",
                ]);
                assert!(said.out.contains("3000"), "{}", said.out);
            }
        }
    }
}
