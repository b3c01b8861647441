//! A server of diaries that lies to its client.

use pinfold_content::{Uuid, Value};
use pinfold_memory::{DiaryStore, Filter, NewPack, Rendering, ServedDiary};

use super::remote::{Change, diary, lying, none, server, titled, with};
use crate::diaries::Scene;

#[test]
fn server_has_nothing_else_signed_and_does_not_lose_a_signature_unnoticed() {
    let cases: [(&str, Change, &str); 7] = [
        (
            "another message",
            Box::new(|path, answer| match path {
                "/crypto/signing-requests" => with(&answer, "message", "send all my money"),
                _ => answer,
            }),
            "signature of something else",
        ),
        (
            "a nonce with a message",
            Box::new(|path, answer| match path {
                "/crypto/signing-requests" => with(&answer, "nonce", "\u{0}\u{0}\u{0} moltnet:v1"),
                _ => answer,
            }),
            "no id or no nonce",
        ),
        (
            "an id that leads elsewhere",
            Box::new(|path, answer| match path {
                "/crypto/signing-requests" => with(&answer, "id", "../../entries/x"),
                _ => answer,
            }),
            "no id or no nonce",
        ),
        (
            "a refused signature",
            Box::new(
                |path, answer| {
                    if path.ends_with("/sign") { with(&answer, "valid", false) } else { answer }
                },
            ),
            "does not take the signature",
        ),
        (
            "an entry without it",
            Box::new(|path, answer| {
                if path.ends_with("/entries") {
                    with(&answer, "contentSignature", Value::Null)
                } else {
                    answer
                }
            }),
            "without its signature",
        ),
        (
            "another text",
            Box::new(|path, answer| {
                if path.ends_with("/entries") {
                    with(&with(&answer, "content", "owned"), "contentHash", Value::Null)
                } else {
                    answer
                }
            }),
            "does not verify",
        ),
        (
            "the signature of somebody else",
            Box::new(|path, answer| {
                if path.ends_with("/entries") {
                    with(&answer, "contentSignature", "AAAA")
                } else {
                    answer
                }
            }),
            "does not verify",
        ),
    ];
    let scene = Scene::new();
    for (name, change, expected) in cases {
        let (diary, asked) = lying(&scene, change);
        let error = diary.create(&titled(name, &[]), &none()).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
        let signed = asked.lock().unwrap().iter().any(|line| line.contains("/sign "));
        let is_early = ["another message", "a nonce with a message", "an id that leads elsewhere"];
        assert_eq!(signed, !is_early.contains(&name), "{name}");
    }
}

#[test]
fn signing_bytes_that_a_server_sends_are_never_used() {
    let scene = Scene::new();
    let (diary, _) = lying(&scene, |path, answer| match path {
        "/crypto/signing-requests" => with(&answer, "signingInput", "b3duZWQ="),
        _ => answer,
    });
    let entry = diary.create(&titled("x", &[]), &none()).unwrap();
    entry.signature.unwrap().check(&entry.cid).unwrap();
}

#[test]
fn packs_and_lists_of_a_server_that_lies_are_errors() {
    let scene = Scene::new();
    let honest = diary(server(&scene, "honest"));
    let one = honest.create(&titled("One", &[]), &none()).unwrap();
    let two = honest.create(&titled("Two", &[]), &none()).unwrap();
    let cid = one.cid.as_str().to_owned();
    let (pack, _) = honest.create_pack(&NewPack::new([one.id]), &none()).unwrap();
    let other = "99999999-9999-4999-8999-999999999999";
    type Ask = Box<dyn Fn(&ServedDiary) -> Result<(), pinfold_memory::MemoryError>>;
    let list = || -> Ask { Box::new(|diary| diary.list(&Filter::default(), 5, 0).map(drop)) };
    let make = || -> Ask {
        let new = NewPack::new([two.id]);
        Box::new(move |diary| diary.create_pack(&new, &none()).map(drop))
    };
    let items = |answer: &Value, change: &dyn Fn(&Value) -> Value| -> Value {
        let items: Vec<Value> =
            answer.get("items").unwrap().as_array().unwrap().iter().map(change).collect();
        with(answer, "items", Value::Array(items))
    };
    let first = move |key: &'static str, value: &str| -> Change {
        let value = value.to_owned();
        Box::new(move |path, answer| {
            if path.ends_with("/entries") {
                items(&answer, &|item| with(item, key, value.as_str()))
            } else {
                answer
            }
        })
    };
    let of =
        |ending: &str, key: &'static str, value: &str| -> Change {
            let (ending, value) = (ending.to_owned(), value.to_owned());
            Box::new(move |path, answer| {
                if path.ends_with(&ending) { with(&answer, key, value.as_str()) } else { answer }
            })
        };
    let render: fn(Uuid) -> Ask = |pack| {
        Box::new(move |diary| {
            diary.render_pack(pack, &Rendering::server(), false, &none()).map(drop)
        })
    };
    let removed = one.id;
    let cases: Vec<(&str, Change, Ask)> = vec![
        ("entry of another diary", first("diaryId", other), list()),
        ("entry of another address", first("contentHash", &cid), list()),
        ("entry that is too long", first("title", &"x".repeat(256)), list()),
        ("entry without a time", first("createdAt", "yesterday"), list()),
        ("pack of another address", of("/packs", "packCid", &cid), make()),
        ("pack without an id", of("/packs", "packId", "../x"), make()),
        ("pack of another diary", of(&pack.to_string(), "diaryId", other), render(pack)),
        ("rendering of another pack", of("/render", "sourcePackId", other), render(pack)),
        ("rendering with a path for an id", of("/render", "id", "../../x"), render(pack)),
        ("page that is no list", of("/entries", "items", "none"), list()),
        (
            "removal that is not said",
            Box::new(|path, answer| match answer.get("success") {
                Some(_) if path.starts_with("/entries/") => with(&answer, "success", false),
                _ => answer,
            }),
            Box::new(move |diary| diary.remove(removed)),
        ),
    ];
    for (name, change, ask) in cases {
        let (diary, _) = lying(&scene, change);
        let error = ask(&diary).unwrap_err();
        let error = error.to_string();
        let is_said = error.contains("cannot be used") || error.contains("not found");
        assert!(is_said, "{name}: {error}");
    }
    // What is of another diary is not removed either.
    let (diary, asked) = lying(&scene, of(&two.id.to_string(), "diaryId", other));
    assert!(diary.remove(two.id).is_err());
    assert!(honest.entry(two.id).is_ok());
    assert_eq!(asked.lock().unwrap().len(), 1);
}
