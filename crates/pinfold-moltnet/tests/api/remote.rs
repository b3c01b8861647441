//! A server's diary as its user has it: everything that a diary here does, and signatures.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use pinfold_content::{Uuid, Value};
use pinfold_memory::{
    DiaryServer, DiaryStore, EntryType, Filter, KnownSecrets, NewEntry, NewPack, Rendering, Search,
    ServedDiary, ServerError, SignWhen, Signer, Weights,
};
use pinfold_moltnet::{PublicKey, RemoteDiaries, Scope};

use crate::diaries::Scene;
use crate::scene::DIARY;
use crate::served::remote;

const SEED: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
const PUBLIC: &str = "ed25519:6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=";

/// Changes answers of a server: the path of a request and its answer.
pub(super) type Change = Box<dyn Fn(&str, Value) -> Value + Send + Sync>;

/// A server whose answers are changed.
struct Liar {
    server: RemoteDiaries,
    change: Change,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Liar {
    fn note(&self, path: &str, body: &Value) {
        self.asked.lock().unwrap().push(format!("{path} {body}"));
    }
}

impl DiaryServer for Liar {
    fn get(&self, path: &str, query: &[(&'static str, String)]) -> Result<Value, ServerError> {
        self.note(path, &Value::Null);
        Ok((self.change)(path, self.server.get(path, query)?))
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, ServerError> {
        self.note(path, body);
        Ok((self.change)(path, self.server.post(path, body)?))
    }

    fn delete(&self, path: &str) -> Result<Value, ServerError> {
        self.note(path, &Value::Null);
        Ok((self.change)(path, self.server.delete(path)?))
    }
}

fn signer() -> Signer {
    let file = format!(r#"{{"identity_id":"i","keys":{{"private_key":"{SEED}"}}}}"#);
    Signer::of_identity(file.as_bytes()).unwrap().unwrap()
}

/// Returns the server as a client that has registered the signer's key.
pub(super) fn server(scene: &Scene, name: &str) -> RemoteDiaries {
    let client =
        scene.client_with_key(name, Scope::ALL, Some(PUBLIC.parse::<PublicKey>().unwrap()));
    remote(&client, &client.key, Scope::ALL)
}

pub(super) fn diary(server: impl DiaryServer + 'static) -> ServedDiary {
    ServedDiary::new(Box::new(server), DIARY.parse().unwrap())
}

pub(super) fn lying(
    scene: &Scene,
    change: impl Fn(&str, Value) -> Value + Send + Sync + 'static,
) -> (ServedDiary, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::default();
    let name = Uuid::generate().unwrap().to_string();
    let server = server(scene, &name);
    let liar = Liar { server, change: Box::new(change), asked: Arc::clone(&asked) };
    (diary(liar).signed_by(Some(signer()), SignWhen::Always), asked)
}

pub(super) fn with(value: &Value, key: &str, member: impl Into<Value>) -> Value {
    value.as_object().unwrap().with(key, member).into()
}

pub(super) fn none() -> KnownSecrets {
    KnownSecrets::default()
}

pub(super) fn titled(title: &str, tags: &[&str]) -> NewEntry {
    NewEntry {
        title: Some(title.to_owned()),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        ..NewEntry::new(format!("text of {title} about disks"))
    }
}

fn search(query: &str) -> Search {
    Search {
        query: Some(query.to_owned()),
        filter: Filter { exclude_superseded: true, ..Filter::default() },
        limit: 10,
        offset: 0,
        weights: Weights::default(),
    }
}

#[test]
fn diary_of_a_server_does_what_one_here_does() {
    let scene = Scene::new();
    let diary: &dyn DiaryStore = &diary(server(&scene, "a"));
    let old = diary.create(&titled("Old", &["a"]), &none()).unwrap();
    let other = diary.create(&titled("Cache", &["b"]), &none()).unwrap();
    let new = NewEntry { supersedes: vec![old.id], ..titled("New", &["a", "b"]) };
    let new = diary.create(&new, &none()).unwrap();
    let titles = |entries: Vec<pinfold_memory::Entry>| -> Vec<String> {
        entries.into_iter().map(|entry| entry.title.unwrap()).collect()
    };
    let current = Filter { exclude_superseded: true, ..Filter::default() };
    assert_eq!(titles(diary.list(&current, 10, 0).unwrap()), ["New", "Cache"]);
    assert_eq!(titles(diary.list(&current, 1, 1).unwrap()), ["Cache"]);
    assert_eq!(titles(diary.list(&Filter::default(), 10, 0).unwrap()), ["New", "Cache", "Old"]);
    assert_eq!(titles(diary.list(&Filter::default(), 1, 2).unwrap()), ["Old"]);
    let tagged = Filter { exclude_tags: vec!["b".to_owned()], ..Filter::default() };
    assert_eq!(titles(diary.list(&tagged, 10, 0).unwrap()), ["Old"]);
    assert!(diary.list(&current, 20, 90).unwrap_err().to_string().contains("/offset"));
    assert_eq!(diary.search(&search("disk")).unwrap().len(), 2);
    assert_eq!(diary.search(&search("disk -cache")).unwrap().len(), 1);
    let begin = &new.id.to_string()[..6];
    assert_eq!(diary.entries_that_begin(begin, 9).unwrap(), [new.id]);
    assert_eq!(diary.entry(new.id).unwrap().cid, new.cid);
    assert_eq!(diary.tags("", 2, &[]).unwrap().len(), 2);
    assert!(diary.tags("", 1, &[EntryType::Episodic]).unwrap().is_empty());

    let chosen = NewPack { token_budget: Some(100), ..NewPack::new([new.id, other.id]) };
    let preview = diary.preview_pack(&chosen).unwrap();
    let (pack, made) = diary.create_pack(&chosen, &none()).unwrap();
    assert_eq!(preview, made);
    assert_eq!(diary.pack(pack).unwrap().entries.len(), 2);
    assert_eq!(diary.pack_with_cid(made.cid.as_str()).unwrap(), pack);
    assert_eq!(diary.packs_that_begin(&pack.to_string()[..6], 9).unwrap(), [pack]);
    assert_eq!(diary.packs(10, 0).unwrap().len(), 1);
    let rendering = Rendering::local(&diary.pack(pack).unwrap());
    let rendered = diary.render_pack(pack, &rendering, true, &none()).unwrap();
    assert!(rendered.pinned && rendered.content.starts_with("# Rendered Pack"));
    diary.render_pack(pack, &Rendering::server(), false, &none()).unwrap();
    let graph = diary.provenance(pack, 2).unwrap();
    assert_eq!(graph.get("nodes").unwrap().as_array().unwrap().len(), 5);

    let all = [titled("Old", &["a"]), titled("Imported", &[])];
    assert_eq!(diary.import(&all, &none()).unwrap(), 1);
    assert_eq!(diary.import(&all, &none()).unwrap(), 0);
    diary.remove(other.id).unwrap();
    assert!(diary.entry(other.id).unwrap_err().to_string().starts_with("Not Found: "));
    assert!(diary.remove(other.id).is_err());
}

#[test]
fn diary_is_found_by_its_name_and_several_are_none() {
    let scene = Scene::new();
    let named = |name| ServedDiary::named(Box::new(server(&scene, name)), name);
    assert!(named("nosuch").unwrap_err().to_string().contains("0 diaries"));
    let found = ServedDiary::named(Box::new(server(&scene, "c")), "default").unwrap();
    assert_eq!(DiaryStore::id(&found).to_string(), DIARY);
}

#[test]
fn no_secret_goes_to_a_server_and_a_refused_import_says_what_was_added() {
    let scene = Scene::new();
    let (diary, asked) = lying(&scene, |_, answer| answer);
    let secret = pinfold_secrets::Secret::from_bytes(b"a-real-secret-value".to_vec()).unwrap();
    let known = KnownSecrets::default().with("builder".to_owned(), secret);
    let leak = NewEntry::new("it is a-real-secret-value");
    assert!(diary.create(&leak, &known).unwrap_err().to_string().contains("the secret `builder`"));
    let error = diary.import(&[titled("fine", &[]), leak.clone()], &known).unwrap_err();
    assert_eq!((error.number, error.added), (2, 0));
    assert!(asked.lock().unwrap().is_empty(), "{asked:?}");
    // This machine does not know the secret, and the server does: the second one is refused there.
    let error = diary.import(&[titled("fine", &[]), leak], &none()).unwrap_err();
    assert_eq!((error.number, error.added), (2, 1));
}

#[test]
fn import_counts_entries_whose_answers_were_lost_and_adds_none_twice() {
    let scene = Scene::new();
    let all = [titled("one", &[]), titled("two", &[]), titled("three", &[])];
    let (diary, _) = lying(&scene, |path, answer| {
        if path.ends_with("/entries") && answer.get("items").is_none() {
            Value::Null
        } else {
            answer
        }
    });
    assert_eq!(diary.import(&all, &none()).unwrap(), 3);
    assert_eq!(diary.import(&all, &none()).unwrap(), 0);
    // Nothing is known if the server answers nothing that can be read.
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let (diary, _) = lying(&scene, move |path, answer| {
        let count = asked.fetch_add(usize::from(path.ends_with("/entries")), Ordering::SeqCst);
        if count == 0 { answer } else { Value::Null }
    });
    let error = diary.import(&[titled("four", &[])], &none()).unwrap_err();
    assert!((error.number, error.added) == (1, 0) && error.is_unknown, "{error:?}");
}

#[test]
fn entry_is_signed_by_the_servers_request_and_verified_when_it_is_read() {
    let scene = Scene::new();
    let signed = diary(server(&scene, "a")).signed_by(Some(signer()), SignWhen::Always);
    let entry = signed.create(&titled("Signed", &["b", "a"]), &none()).unwrap();
    let signature = entry.signature.clone().unwrap();
    assert_eq!(signature.public_key, PUBLIC);
    // A stranger reads the same.
    let stranger = diary(server(&scene, "b"));
    let read = stranger.entry(entry.id).unwrap();
    let theirs = read.signature.unwrap();
    assert_eq!((&theirs.signature, &theirs.nonce), (&signature.signature, &signature.nonce));
    assert_eq!(theirs.fingerprint(), "FE81-2C12-F3AB-4CE6");
    assert!(stranger.remove(entry.id).unwrap_err().to_string().contains("immutable"));
    // A key that the server does not know as its client's signs nothing, or fails.
    let unknown = || {
        let name = Uuid::generate().unwrap().to_string();
        let client = scene.client(&name, Scope::ALL);
        diary(remote(&client, &client.key, Scope::ALL))
    };
    let always = unknown().signed_by(Some(signer()), SignWhen::Always);
    let error = always.create(&titled("x", &[]), &none()).unwrap_err();
    assert!(error.to_string().contains("does not know the key"), "{error}");
    let known = unknown().signed_by(Some(signer()), SignWhen::KeyIsKnown);
    assert_eq!(known.create(&titled("y", &[]), &none()).unwrap().signature, None);
    assert_eq!(stranger.list(&Filter::default(), 10, 0).unwrap().len(), 2);
    // Keys of before there were signatures may not sign, or not even ask who they are.
    for scopes in [Scope::OF_A_DIARY, &Scope::OF_A_DIARY[1..]] {
        let name = Uuid::generate().unwrap().to_string();
        let client = scene.client_with_key(&name, scopes, Some(PUBLIC.parse().unwrap()));
        let diary = diary(remote(&client, &client.key, Scope::ALL))
            .signed_by(Some(signer()), SignWhen::KeyIsKnown);
        assert_eq!(diary.create(&titled(&name, &[]), &none()).unwrap().signature, None);
    }
    // Many may be signed one after the other.
    for number in 0..80 {
        signed.create(&titled(&number.to_string(), &[]), &none()).unwrap();
    }
}

#[test]
fn signature_without_its_nonce_is_verified_by_the_clients_own_requests_or_by_the_server() {
    let scene = Scene::new();
    // MoltNet's server keeps the nonces of entries to itself.
    let hide = |_: &str, answer: Value| match answer.as_object() {
        Some(object) => object.without("signingNonce").into(),
        None => answer,
    };
    let (diary, _) = lying(&scene, hide);
    let entry = diary.create(&titled("Signed", &[]), &none()).unwrap();
    assert!(diary.entry(entry.id).unwrap().signature.is_some());
    // Another client cannot ask for the nonce, and learns who signed as the server says.
    let other = {
        let asked = Arc::default();
        let liar = Liar { server: server(&scene, "other"), change: Box::new(hide), asked };
        self::diary(liar)
    };
    let read = other.entry(entry.id).unwrap();
    assert_eq!((read.signature, read.claim.unwrap().public_key), (None, PUBLIC.to_owned()));
    // The server itself says that it does not verify.
    let denies = {
        let change = move |path: &str, answer: Value| {
            if path.ends_with("/verify") {
                with(&answer, "valid", false)
            } else {
                hide(path, answer)
            }
        };
        let liar =
            Liar { server: server(&scene, "d"), change: Box::new(change), asked: Arc::default() };
        self::diary(liar)
    };
    let error = denies.entry(entry.id).unwrap_err().to_string();
    assert!(
        error.contains(&format!("signature of the entry {} does not verify", entry.id)),
        "{error}"
    );
}

#[test]
fn request_for_a_signature_is_its_agents_own_and_good_for_one_entry() {
    let scene = Scene::new();
    let key = || Some(PUBLIC.parse::<PublicKey>().unwrap());
    let client = scene.client_with_key("a", Scope::ALL, key());
    let other = scene.client_with_key("b", Scope::ALL, key());
    let plain = scene.client("c", Scope::ALL);
    let new = titled("x", &[]);
    let cid = new.address().as_str().to_owned();
    let ask = format!(r#"{{"message":"{cid}"}}"#);
    assert_eq!(plain.post("/crypto/signing-requests", &ask).status, 400);
    let request = client.post("/crypto/signing-requests", &ask).ok();
    let id = request.text_of("id").unwrap().into_owned();
    let path = format!("/crypto/signing-requests/{id}");
    assert_eq!(other.get(&path).status, 404);
    assert_eq!(other.post(&format!("{path}/sign"), r#"{"signature":"AAAA"}"#).status, 404);
    let entries = format!("/diaries/{DIARY}/entries");
    let body = |text: &str, id: &str| {
        format!(
            r#"{{"title":"x","content":"{text}","signingRequestId":"{id}","contentHash":"{cid}"}}"#
        )
    };
    let text = "text of x about disks";
    let pending = client.post(&entries, &body(text, &id));
    assert_eq!(pending.status, 400);
    assert!(pending.json().to_string().contains("is pending, expected completed"));
    // A signature that is not valid ends the request.
    let wrong = client.post(&format!("{path}/sign"), r#"{"signature":"AAAA"}"#).ok();
    assert_eq!(wrong.get("valid").unwrap().as_bool(), Some(false));
    assert_eq!(client.post(&format!("{path}/sign"), r#"{"signature":"AAAA"}"#).status, 409);
    assert_eq!(client.post(&entries, &body(text, &id)).status, 400);
    // A valid one is of one text, one agent, and one entry.
    let request = client.post("/crypto/signing-requests", &ask).ok();
    let id = request.text_of("id").unwrap().into_owned();
    let input = request.text_of("signingInput").unwrap();
    let input = data_encoding::BASE64.decode(input.as_bytes()).unwrap();
    let seed = data_encoding::BASE64.decode(SEED.as_bytes()).unwrap();
    let pair = ring::signature::Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
    let signature = data_encoding::BASE64.encode(pair.sign(&input).as_ref());
    let sent = format!(r#"{{"signature":"{signature}"}}"#);
    let done = client.post(&format!("/crypto/signing-requests/{id}/sign"), &sent).ok();
    assert_eq!(done.get("valid").unwrap().as_bool(), Some(true));
    assert_eq!(client.post(&entries, &body("another text", &id)).status, 400);
    assert_eq!(other.post(&entries, &body(text, &id)).status, 404);
    let made = client.post(&entries, &body(text, &id)).ok();
    assert_eq!(made.text_of("contentSignature").unwrap(), signature);
    let again = client.post(&entries, &body(text, &id));
    assert_eq!(again.status, 409);
    assert!(again.json().to_string().contains("already been used"));
    let entry = made.text_of("id").unwrap().into_owned();
    let verified = client.get(&format!("/entries/{entry}/verify")).ok();
    assert_eq!(verified.get("valid").unwrap().as_bool(), Some(true));
    let changed = client.call("PATCH", &format!("/entries/{entry}"), r#"{"title":"y"}"#);
    assert_eq!(changed.status, 409);
    // Requests are few.
    let many = (0..20).map(|_| client.post("/crypto/signing-requests", &ask).status);
    assert!(many.collect::<Vec<_>>().contains(&429));
    assert_eq!(other.post("/crypto/signing-requests", &ask).status, 201);
}

#[test]
fn changed_entry_is_found_by_its_new_words_and_tags_alone() {
    let scene = Scene::new();
    let client = scene.client("a", Scope::ALL);
    let entries = format!("/diaries/{DIARY}/entries");
    let made = client.post(&entries, r#"{"title":"t","content":"old word","tags":["a"]}"#).ok();
    let entry = format!("/entries/{}", made.text_of("id").unwrap());
    let patch = |body: &str| client.call("PATCH", &entry, body);
    for invalid in
        ["{}", r#"{"id":"x"}"#, r#"{"content":""}"#, r#"{"content":"x","creator":1}"#, "[]"]
    {
        assert_eq!(patch(invalid).status, 400, "{invalid}");
    }
    let secret = patch(r#"{"content":"a-real-secret-value"}"#);
    assert_eq!(secret.status, 400);
    let changed = patch(r#"{"content":"new term","tags":["b"]}"#).ok();
    assert_eq!(changed.text_of("title").unwrap(), "t");
    assert_ne!(changed.text_of("contentHash"), made.text_of("contentHash"));
    let found = |query: &str| {
        let body = format!(r#"{{"diaryId":"{DIARY}","query":"{query}"}}"#);
        let found = client.post("/diaries/search", &body).ok();
        found.get("results").unwrap().as_array().unwrap().len()
    };
    assert_eq!((found("word"), found("term")), (0, 1));
    let tags = client.get(&format!("/diaries/{DIARY}/tags")).ok();
    assert_eq!(tags.get("tags").unwrap().to_string(), r#"[{"tag":"b","count":1}]"#);
    let writer = scene.client("reader", Scope::OF_A_READER);
    assert_eq!(writer.call("PATCH", &entry, r#"{"title":"x"}"#).status, 403);
}
