//! A login is refreshed outside, once for everybody, before it ends and when it is refused.

use std::io::{BufReader, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pinfold_egress::{
    BodyForm, Credential, CredentialKind, Current, Lack, LiveCredential, LiveSecret, LoginTerms,
    Renewal, Renewed, Route, Times, TrustRoots,
};
use pinfold_secrets::{CommandOutput, Entry, Login, RunCommand, Secret, SecretId, Store};
use pinfold_testkit::TokenServer;
use pinfold_testkit::token_server::FIRST_REFRESH;
use tempfile::TempDir;

use super::support::{
    OK, Server, TestGateway, header, json, read_head, read_request, route, secret, status,
};

/// A machine on which nothing is installed.
struct Bare;

impl RunCommand for Bare {
    fn run(&self, _: &[String], _: Option<&Secret>) -> std::io::Result<CommandOutput> {
        Err(std::io::ErrorKind::NotFound.into())
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

fn id() -> SecretId {
    SecretId::new("anthropic").unwrap()
}

/// A login in a store, and how a session sees it.
struct Kept {
    store: Store,
    renewal: Renewal,
}

impl Kept {
    fn at(store: &Path, server: &TokenServer, form: BodyForm) -> Arc<Self> {
        let store = Store::new(store.join("secrets"));
        let terms = LoginTerms::new(&server.url(), "the-client", form).unwrap();
        let renewal = Renewal::new(store.clone(), id(), terms, TrustRoots::System);
        Arc::new(Self { store, renewal })
    }

    /// Keeps the server's first login, which ends so many milliseconds from now.
    fn set(&self, ends_in: i64) {
        let expires_at = Some(now().saturating_add_signed(ends_in));
        let (access, refresh) = (secret(&TokenServer::access(0)), Some(secret(FIRST_REFRESH)));
        let login = Login { access, refresh, expires_at, refreshed_at: None, account: None };
        self.store.set(&id(), Entry::Login(login), None, &Bare).unwrap();
    }

    fn login(&self) -> Login {
        self.store.login(&id()).unwrap().unwrap()
    }

    fn gateway(self: &Arc<Self>, upstream: &Server) -> TestGateway {
        let source = Arc::clone(self) as Arc<dyn LiveCredential>;
        let kind = CredentialKind::OAuth;
        let credential =
            Credential { kind, id: id(), account_header: None, key_header: None, source };
        let address = format!("http://{}", upstream.address);
        TestGateway::with(
            vec![Route { credential, ..route("anthropic", &address) }],
            TrustRoots::System,
        )
    }
}

impl LiveSecret for Kept {
    fn stamp(&self) -> u64 {
        self.store.stamp(&id())
    }

    fn value(&self) -> Result<Secret, pinfold_secrets::Error> {
        self.store.resolve(&id(), &Bare).map(|resolved| resolved.secret)
    }
}

impl LiveCredential for Kept {
    fn current(&self) -> Result<Current, Lack> {
        let login = self.store.login(&id()).ok().flatten().ok_or(Lack::Missing)?;
        let (kind, times) = (CredentialKind::OAuth, Times::of(&login));
        Ok(Current { secret: login.access, kind, account: None, times })
    }

    fn renew(&self, refused: Option<&Secret>) -> Result<Renewed, Lack> {
        self.renewal.renew(refused)
    }

    fn finish(&self) {
        self.renewal.finish();
    }
}

/// Takes these tokens and refuses all others.
fn upstream(good: &[usize]) -> (Server, Arc<Mutex<Vec<String>>>) {
    let good: Vec<String> =
        good.iter().map(|turn| format!("Bearer {}", TokenServer::access(*turn))).collect();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let remember = Arc::clone(&seen);
    let server = Server::start(move |mut stream| {
        loop {
            let request = read_request(&mut stream)?;
            let token = header(&request, "authorization").unwrap_or_default().to_owned();
            let answer = if good.contains(&token) {
                OK
            } else {
                "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
            };
            remember.lock().unwrap().push(token);
            stream.get_mut().write_all(answer.as_bytes())?;
        }
    });
    (server, seen)
}

fn scene(ends_in: i64) -> (TempDir, TokenServer, Arc<Kept>) {
    let (root, server) = (TempDir::new().unwrap(), TokenServer::start().unwrap());
    let kept = Kept::at(root.path(), &server, BodyForm::Json);
    kept.set(ends_in);
    (root, server, kept)
}

const HOUR: i64 = 3_600_000;

#[test]
fn a_login_that_has_ended_is_refreshed_before_the_request_and_kept() {
    let (_root, server, kept) = scene(-1);
    let (upstream, seen) = upstream(&[1]);
    let gateway = kept.gateway(&upstream);
    assert_eq!([(); 2].map(|()| status(&gateway.get("/v1/messages", ""))), [200, 200]);
    assert_eq!(server.given(), 1);
    assert_eq!(seen.lock().unwrap().len(), 2, "the old token was never sent");
    let login = kept.login();
    assert_eq!(login.access.expose(), TokenServer::access(1));
    assert_eq!(login.refresh.unwrap().expose(), "sk-ant-ort01-refresh-1");
    assert!(login.expires_at.unwrap() > now() + 3_500_000);
    let asked = &server.asked()[0];
    assert_eq!(asked["client_id"], "the-client");
}

#[test]
fn a_form_is_what_rfc_6749_has() {
    let (root, server) = (TempDir::new().unwrap(), TokenServer::start().unwrap());
    let kept = Kept::at(root.path(), &server, BodyForm::Form);
    kept.set(-1);
    assert_eq!(kept.renew(None), Ok(Renewed::Fresh));
    assert_eq!(server.given(), 1);
    assert_eq!(server.asked()[0]["grant_type"], "refresh_token");
}

#[test]
fn eight_sessions_at_once_refresh_once() {
    let (root, server, _kept) = scene(-1);
    server.pause(Duration::from_millis(300));
    let (upstream, _) = upstream(&[1]);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let session = Kept::at(root.path(), &server, BodyForm::Json);
                let gateway = session.gateway(&upstream);
                thread::scope(|scope| {
                    for _ in 0..3 {
                        scope.spawn(|| assert_eq!(status(&gateway.get("/v1/messages", "")), 200));
                    }
                });
            });
        }
    });
    assert_eq!((server.given(), server.refusals()), (1, 0));
}

#[test]
fn a_token_that_is_refused_is_refreshed_and_the_client_asks_again() {
    let (_root, server, kept) = scene(HOUR);
    let (upstream, _) = upstream(&[1]);
    let gateway = kept.gateway(&upstream);
    let first = gateway.get("/v1/messages", "");
    assert_eq!((status(&first), header(&first, "x-should-retry")), (503, Some("true")));
    assert_eq!(header(&first, "retry-after"), Some("0"));
    assert_eq!(status(&gateway.get("/v1/messages", "")), 200);
    assert_eq!(server.given(), 1);
}

#[test]
fn a_young_token_that_is_refused_is_not_refreshed_again() {
    let (_root, server, kept) = scene(HOUR);
    let (upstream, _) = upstream(&[]);
    let gateway = kept.gateway(&upstream);
    let statuses = [(); 4].map(|()| status(&gateway.get("/v1/messages", "")));
    assert_eq!(statuses, [503, 401, 401, 401]);
    assert_eq!(server.given(), 1);
}

#[test]
fn a_login_that_ends_soon_serves_while_it_is_refreshed() {
    let (_root, server, kept) = scene(60_000);
    server.pause(Duration::from_millis(500));
    let (upstream, seen) = upstream(&[0, 1]);
    let gateway = kept.gateway(&upstream);
    let began = Instant::now();
    assert_eq!(status(&gateway.get("/v1/messages", "")), 200);
    assert!(began.elapsed() < Duration::from_millis(400), "{:?}", began.elapsed());
    while kept.login().access.expose() != TokenServer::access(1) {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(status(&gateway.get("/v1/messages", "")), 200);
    let tokens = [0, 1].map(|turn| format!("Bearer {}", TokenServer::access(turn)));
    assert_eq!(*seen.lock().unwrap(), tokens);
}

#[test]
fn failing_login_server_is_asked_again_while_a_good_token_serves() {
    let (_root, server, kept) = scene(-1);
    server.fail(2);
    let (good, _) = upstream(&[0, 1]);
    assert_eq!(status(&kept.gateway(&good).get("/v1/messages", "")), 200, "third time lucky");
    assert_eq!(server.given(), 1);

    let (_root, server, kept) = scene(60_000);
    server.fail(1000);
    let gateway = kept.gateway(&good);
    assert_eq!(status(&gateway.get("/v1/messages", "")), 200);
    while server.asked().is_empty() {
        thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..20 {
        assert_eq!(status(&gateway.get("/v1/messages", "")), 200);
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(server.asked().len(), 1, "attempts pause");

    let (_root, server, kept) = scene(-1);
    server.fail(1000);
    let answer = kept.gateway(&good).get("/v1/messages", "");
    assert_eq!((status(&answer), header(&answer, "x-should-retry")), (503, Some("true")));
    assert!(json(&answer)["error"]["message"].as_str().unwrap().contains("503"), "{answer}");
}

#[test]
fn refused_refresh_asks_the_user_to_log_in_again_and_is_tried_once() {
    let (_root, server, kept) = scene(-1);
    server.end_login();
    let (upstream, seen) = upstream(&[1]);
    let gateway = kept.gateway(&upstream);
    for _ in 0..3 {
        let answer = gateway.get("/v1/messages", "");
        assert_eq!((status(&answer), header(&answer, "x-should-retry")), (503, Some("false")));
        let message = json(&answer)["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("log in again") && message.contains("pinfold secret import"));
        assert!(!answer.contains("sk-ant-o"), "{answer}");
    }
    assert_eq!(server.asked().len(), 1);
    assert!(seen.lock().unwrap().is_empty());
    // Another login is used at once.
    kept.set(HOUR);
    let (upstream, _) = self::upstream(&[0]);
    assert_eq!(status(&kept.gateway(&upstream).get("/v1/messages", "")), 200);
}

#[test]
fn a_login_that_is_removed_while_it_is_refreshed_stays_removed() {
    let (_root, server, kept) = scene(-1);
    server.pause(Duration::from_millis(500));
    thread::scope(|scope| {
        let renewing = scope.spawn(|| kept.renew(None));
        while server.asked().is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        let began = Instant::now();
        kept.store.remove(&id(), &Bare).unwrap();
        assert!(began.elapsed() < Duration::from_millis(300), "removing does not wait");
        renewing.join().unwrap().unwrap();
    });
    assert!(kept.store.login(&id()).unwrap().is_none());
    assert!(!kept.store.keeps(&id()).unwrap());
}

#[test]
fn the_end_of_a_session_waits_for_an_answer_under_way() {
    let (_root, server, kept) = scene(-1);
    server.pause(Duration::from_millis(500));
    thread::scope(|scope| {
        scope.spawn(|| kept.renew(None));
        while server.asked().is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        kept.finish();
        assert_eq!(kept.login().access.expose(), TokenServer::access(1), "it is on the disk");
    });
    kept.set(-1);
    assert_eq!(kept.renew(None), Err(Lack::Missing), "and none begins any more");
}

#[test]
fn a_secret_that_changes_is_used_by_the_next_request_of_an_open_connection() {
    let (_root, server, kept) = scene(HOUR);
    let (upstream, seen) = upstream(&[0]);
    let gateway = kept.gateway(&upstream);
    let mut stream = BufReader::new(gateway.connect());
    let mut ask = || {
        let key = &gateway.key;
        let head = format!("GET /v1/x HTTP/1.1\r\nHost: localhost\r\nx-api-key: {key}\r\n\r\n");
        stream.get_mut().write_all(head.as_bytes()).unwrap();
        let head = read_head(&mut stream).unwrap();
        let length = header(&head, "content-length").unwrap().parse().unwrap();
        std::io::Read::read_exact(&mut stream, &mut vec![0; length]).unwrap();
        status(&head)
    };
    assert_eq!(ask(), 200);
    let key = Entry::Value(secret("sk-ant-oat01-access-0"));
    kept.store.set(&id(), key, None, &Bare).unwrap();
    assert_eq!(ask(), 503, "what a session sees as a login is one no more");
    kept.set(HOUR);
    assert_eq!(ask(), 200);
    kept.store.remove(&id(), &Bare).unwrap();
    assert_eq!(ask(), 503);
    assert_eq!((server.given(), seen.lock().unwrap().len()), (0, 2));
}
