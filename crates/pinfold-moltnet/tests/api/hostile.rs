//! A client that wants to break the server, or to get at what is not its own.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::scene::{Client, DIARY, Scene, raw};

#[test]
fn flood_is_slowed_down_and_hurts_nobody_else() {
    let scene = Scene::new();
    let (flood, other) = (scene.client("flood"), scene.client("other"));
    let task = other.create("");
    let mut refused = 0;
    for _ in 0..1_200 {
        let reply = flood.get("/tasks");
        if reply.status == 429 {
            assert!(reply.head.contains("retry-after: 1"), "{}", reply.head);
            refused += 1;
        }
    }
    assert!(refused > 100, "{refused}");
    other.begin(&task);
}

#[test]
fn guesses_of_keys_are_slowed_down_and_hurt_no_valid_key() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let guess = Client { key: "guess".to_owned(), ..agent.clone() };
    let statuses: Vec<u16> = (0..200).map(|_| guess.get("/tasks").status).collect();
    assert!(statuses.contains(&401) && statuses.ends_with(&[429]));
    agent.get("/tasks").ok();
}

#[test]
fn body_that_is_too_large_is_refused() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let brief = "x".repeat(10 << 20);
    let body =
        format!(r#"{{"taskType":"freeform","diaryId":"{DIARY}","input":{{"brief":"{brief}"}}}}"#);
    let reply = agent.post("/tasks", &body);
    // The connection may break while the rest is sent.
    assert!([0, 413].contains(&reply.status), "{}", reply.status);
    // What says nothing of its length is counted as it comes.
    let chunk = format!("100000\r\n{}\r\n", "x".repeat(0x10_0000));
    let head = format!(
        "POST /tasks HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ntransfer-encoding: chunked\r\n\
         content-type: application/json\r\nconnection: close\r\n\r\n",
        agent.key
    );
    let reply = raw(scene.address, (head + &chunk.repeat(8) + "0\r\n\r\n").as_bytes());
    assert!([0, 413].contains(&reply.status), "{}", reply.status);
    // A body whose sender has no key is not read at all.
    let guess = Client { key: "guess".to_owned(), ..agent.clone() };
    assert_eq!(guess.post("/tasks", "{}").status, 401);
    agent.create("");
}

#[test]
fn body_that_is_not_json_is_refused() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let json = "content-type: application/json\r\n";
    let deep = "[".repeat(1_000_000);
    let keys: Vec<String> = (0..100_000).map(|key| format!("\"k{key}\":0")).collect();
    for body in [
        &b"\xff\xfe"[..],
        b"{\"taskType\":\"\xc3\x28\"}",
        deep.as_bytes(),
        b"[]",
        b"null",
        b"{",
        b"{\"a\":1}{}",
        format!("{{{}}}", keys.join(",")).as_bytes(),
    ] {
        let began = Instant::now();
        let reply = agent.send("POST", "/tasks", json, body);
        assert_eq!(reply.status, 400, "{:?}", &body[..body.len().min(20)]);
        assert!(began.elapsed() < Duration::from_secs(10));
    }
    assert_eq!(agent.send("POST", "/tasks", "content-type: text/plain\r\n", b"{}").status, 415);
    // Its detail does not repeat what was sent beyond measure.
    let long = format!(r#"{{"taskType":"{}"}}"#, "x".repeat(100_000));
    assert!(agent.post("/tasks", &long).body.len() < 2_000);
}

#[test]
fn lone_halves_of_characters_pass_through_unchanged() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let body = format!(
        r#"{{"taskType":"freeform","diaryId":"{DIARY}","input":{{"brief":"\ud83d \u0000"}}}}"#
    );
    let created = agent.post("/tasks", &body).ok();
    let input = created.get("input").unwrap().to_string();
    assert!(input.starts_with(r#"{"brief":"\ud83d \u0000","#), "{input}");
}

#[test]
fn slow_clients_do_not_keep_others_out() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let slow: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(scene.address).unwrap();
            stream.write_all(b"POST /tasks HTTP/1.1\r\nhost:").unwrap();
            stream
        })
        .collect();
    agent.create("");
    let mut first = &slow[0];
    first.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
    let began = Instant::now();
    let mut answer = Vec::new();
    let _ = first.read_to_end(&mut answer);
    assert!(began.elapsed() < Duration::from_secs(30), "it was not cut off");
}

/// Each keeps its connection by another request before its time is over.
#[test]
fn strangers_take_no_connection_from_those_with_a_key() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let stranger = || {
        let mut stream = TcpStream::connect(scene.address).unwrap();
        stream.write_all(b"GET /tasks HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        stream
    };
    let mut strangers: Vec<TcpStream> = (0..256).map(|_| stranger()).collect();
    let began = Instant::now();
    for _ in 0..20 {
        strangers.extend((0..10).map(|_| stranger()));
        agent.create("");
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// Each would keep its connection by another request before its time is over.
#[test]
fn connections_of_one_key_leave_room_for_those_of_others() {
    let scene = Scene::new();
    let (greedy, other) = (scene.client("greedy"), scene.client("other"));
    let head = format!(
        "GET /tasks?taskType=curate HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n",
        greedy.key
    );
    let answered = || {
        let mut stream = TcpStream::connect(scene.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut begun = [0; 12];
        stream.read_exact(&mut begun).unwrap();
        (stream, String::from_utf8_lossy(&begun).into_owned())
    };
    let mut held: Vec<(TcpStream, String)> = (0..64).map(|_| answered()).collect();
    assert!(held.iter().all(|(_, status)| status == "HTTP/1.1 200"), "{held:?}");
    for _ in 0..300 {
        let (mut stream, status) = answered();
        assert_eq!(status, "HTTP/1.1 429");
        // The answer ends the connection.
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("too many connections"), "{rest}");
    }
    other.create("");
    // One that ends makes room for another.
    held.pop();
    let began = Instant::now();
    while answered().1 != "HTTP/1.1 200" {
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn slow_bodies_of_one_key_do_not_hold_up_those_of_others() {
    let scene = Scene::new();
    let (slow, other) = (scene.client("slow"), scene.client("other"));
    let task = slow.create("");
    let head = format!(
        "PUT /tasks/{task}/attempts/1/artifacts?kind=a&title=b HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         transfer-encoding: chunked\r\n\r\n1\r\nx\r\n",
        slow.key
    );
    let begin = || {
        let mut stream = TcpStream::connect(scene.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let _slow: Vec<TcpStream> = (0..30).map(|_| begin()).collect();
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    other.create("");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// An answer is kept until its client has taken it.
#[test]
fn answers_that_nobody_takes_do_not_fill_the_memory() {
    let scene = Scene::new();
    let (slow, other) = (scene.client("slow"), scene.client("other"));
    let task = slow.create("");
    slow.begin(&task);
    let content = vec![b'x'; 20 << 20];
    let path = format!("/tasks/{task}/attempts/1/artifacts");
    let made = slow.send("PUT", &format!("{path}?kind=a&title=b"), "", &content).ok();
    let cid = made.text_of("cid").unwrap().into_owned();
    let before = resident();
    let ask = || {
        let mut stream = TcpStream::connect(scene.address).unwrap();
        let head = format!(
            "GET {path}/{cid}/content HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n",
            slow.key
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let asked: Vec<TcpStream> = (0..30).map(|_| ask()).collect();
    std::thread::sleep(Duration::from_secs(2));
    let more = resident().saturating_sub(before);
    assert!(more < 200 << 20, "{} MiB", more >> 20);
    other.create("");
    // Its heartbeats wait for none of them.
    slow.of_attempt(&task, 1, "heartbeat", "{}").ok();
    // A client that takes the answers gets all of them.
    let length = content.len();
    let take = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut part = vec![0; 1 << 20];
        let mut taken = 0;
        while taken < length {
            taken += stream.read(&mut part).unwrap();
        }
    };
    std::thread::scope(|scope| {
        asked.into_iter().for_each(|stream| drop(scope.spawn(move || take(stream))));
    });
}

/// Returns the bytes of memory that this process has, and the server with it.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn artifacts_that_are_too_many_are_not_on_the_disk() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let task = agent.create("");
    agent.begin(&task);
    let path = format!("/tasks/{task}/attempts/1/artifacts?kind=a&title=b");
    let put = |content: u8| agent.send("PUT", &path, "", &[content]).status;
    let statuses: Vec<u16> = (0..40).map(put).collect();
    assert_eq!(statuses, [[200; 32].as_slice(), &[409; 8]].concat());
    assert_eq!(put(0), 200, "one that is there");
    let files = std::fs::read_dir(scene.directory.path().join("artifacts").join(&task)).unwrap();
    assert_eq!(files.count(), 32);
}

#[test]
fn large_tasks_are_refused_or_make_short_pages() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let create = |bytes: usize| {
        let value = "x".repeat(bytes);
        let criteria = format!(
            r#"{{"version":1,"assertions":[{{"id":"a","path":"b","op":"equals","value":"{value}"}}]}}"#
        );
        let input = format!(r#"{{"brief":"x","successCriteria":{criteria}}}"#);
        let body = format!(r#"{{"taskType":"freeform","diaryId":"{DIARY}","input":{input}}}"#);
        agent.post("/tasks", &body).status
    };
    assert_eq!(create(1 << 20), 400);
    for _ in 0..12 {
        assert_eq!(create(1_000_000), 201);
    }
    let list = agent.get("/tasks?limit=100").ok();
    let length =
        |list: &pinfold_content::Value| list.get("items").unwrap().as_array().unwrap().len();
    assert_eq!(length(&list), 9);
    let next = list.text_of("nextCursor").unwrap().into_owned();
    let rest = agent.get(&format!("/tasks?limit=100&cursor={next}")).ok();
    assert_eq!(length(&rest), 3);
}

#[test]
fn request_that_is_not_http_ends_its_connection_alone() {
    let scene = Scene::new();
    let agent = scene.client("a");
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET /tasks HTTP/9.9\r\n\r\n",
        b"GET  /tasks\r\n\r\n",
        &[b"GET /tasks HTTP/1.1\r\nx: ".as_slice(), &[b'x'; 100_000]].concat(),
        b"POST /tasks HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
    ] {
        let reply = raw(scene.address, bytes);
        assert!(reply.status == 0 || reply.status >= 400, "{}", reply.status);
    }
    agent.get("/agents/whoami").ok();
}

#[test]
fn path_leads_to_no_file() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let task = agent.create("");
    agent.begin(&task);
    for cid in ["..%2f..%2fagents.json", "../../agents.json", "bafkrei", "%00"] {
        for path in [
            format!("/tasks/{task}/artifacts/{cid}/content"),
            format!("/tasks/{task}/attempts/1/artifacts/{cid}/content"),
        ] {
            assert_eq!(agent.get(&path).status, 404, "{path}");
        }
    }
}

#[test]
fn messages_do_not_fill_the_store_at_once() {
    let scene = Scene::new();
    let agent = scene.client("a");
    let task = agent.create("");
    agent.begin(&task);
    let message = r#"{"kind":"info","payload":{}}"#;
    let many = vec![message; 501].join(",");
    let send = |messages: &str| {
        agent.of_attempt(&task, 1, "messages", &format!(r#"{{"messages":[{messages}]}}"#)).status
    };
    assert_eq!(send(&many), 400);
    let large = format!(r#"{{"kind":"info","payload":{{"a":"{}"}}}}"#, "x".repeat(300_000));
    assert_eq!(send(&large), 400);
    assert_eq!(send(r#"{"kind":"other","payload":{}}"#), 400);
    assert_eq!(send(""), 400);
    assert_eq!(send(message), 200);
}
