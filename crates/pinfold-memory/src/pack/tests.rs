use pinfold_content::{Cid, Object, Value, read};

use super::{CompressionLevel, PackedEntry, address};

const DIARY: &str = "22222222-2222-4222-8222-222222222222";
const HELLO: &str = "bafkreiffzrhzip7nri65lsjh2nr7g2ygsosdpk7x5ebfxctsiwvsfgfnsi";
const TITLE: &str = "bafkreicfvwwwsn7ruo5fhtxopyjq5vkitzflaoahhkwizxz4tk4hbfijre";

fn entry(cid: &str, level: CompressionLevel, rank: u32) -> PackedEntry {
    PackedEntry {
        entry: DIARY.parse().unwrap(),
        cid: cid.parse().unwrap(),
        rank,
        level,
        original_tokens: 0,
        packed_tokens: 0,
    }
}

fn params(text: &str) -> Object {
    let Value::Object(object) = read(text).unwrap() else {
        unreachable!("parameters are an object")
    };
    object
}

fn of(params: &Object, entries: &[PackedEntry]) -> Cid {
    address(DIARY.parse().unwrap(), params, entries).unwrap()
}

#[test]
fn addresses_are_those_of_the_original() {
    let first = entry(HELLO, CompressionLevel::Full, 1);
    let second = entry(TITLE, CompressionLevel::Summary, 2);
    let none = Object::default();
    assert_eq!(
        of(&none, std::slice::from_ref(&first)).as_str(),
        "bafyreifrb6ktrzta4tpf2z7emlcnmbvqan5w5giyp6ihpxig2bhxbe3vya"
    );
    assert_eq!(
        of(&none, &[first.clone(), second]).as_str(),
        "bafyreigwsoo2p45ivjvmzpby4q3oz2kptpgyzt2e7hetm3qse6urrvukhy"
    );
    let noted = params(r#"{"recipe":"r","n":3,"f":0.5,"nested":{"b":1,"a":[true,null]}}"#);
    assert_eq!(
        of(&noted, &[first]).as_str(),
        "bafyreie6cnyxuolrlkpfnv4vrvb5iyfgp5giphraar4xxe4gmox4lzoaim"
    );
}

#[test]
fn order_and_form_of_parameters_do_not_make_another_pack() {
    let first = [entry(HELLO, CompressionLevel::Full, 1)];
    let one = of(&params(r#"{"a":1,"bb":{"x":1e0,"y":2}}"#), &first);
    assert_eq!(one, of(&params(r#"{"bb":{"y":2.0,"x":1},"a":1}"#), &first));
    assert_ne!(one, of(&params(r#"{"a":1,"bb":{"x":1.5,"y":2}}"#), &first));
    assert_ne!(one, of(&params(r#"{"a":"1","bb":{"x":1,"y":2}}"#), &first));
}

#[test]
fn parameters_with_halves_of_characters_have_no_address() {
    let first = [entry(HELLO, CompressionLevel::Full, 1)];
    let diary = DIARY.parse().unwrap();
    assert!(address(diary, &params(r#"{"\ud800":1}"#), &first).is_err());
    assert!(address(diary, &params(r#"{"n":1e999}"#), &first).is_err());
}
