use super::*;

#[test]
fn each_is_another_and_says_the_time() {
    let (first, second) = (Fresh::now().unwrap(), Fresh::now().unwrap());
    assert_ne!(first.seed, second.seed);
    assert!(second.time >= first.time);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    assert!(now - second.time < Duration::from_secs(60));
}

#[test]
fn message_is_read_as_it_was_written() {
    let fresh = Fresh::now().unwrap();
    let bytes = fresh.encode();
    assert_eq!(Fresh::decode(&bytes).unwrap(), fresh);
    for end in 0..bytes.len() {
        assert!(Fresh::decode(&bytes[..end]).is_err(), "{end}");
    }
}
