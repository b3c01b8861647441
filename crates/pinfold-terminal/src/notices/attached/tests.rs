use super::*;

const SIZE: (usize, usize) = (24, 80);

fn heard(client: &mut AttachedNotices) -> Vec<String> {
    std::iter::from_fn(|| client.hear()).collect()
}

#[test]
fn notices_reach_all_who_are_attached_and_else_the_first_who_will_be() {
    let bulletin = Bulletin::default();
    bulletin.post("first\x1b[2J\nline");
    let join = || AttachedNotices::new(Some(bulletin.listen().unwrap()));
    let (mut one, mut other) = (join(), join());
    assert_eq!(heard(&mut one), ["first\\u{1b}[2J\\nline"]);
    assert_eq!(heard(&mut other), [""; 0]);
    drop(other);
    let mut other = join();
    bulletin.post(&"x".repeat(2 * LONGEST));
    for client in [&mut one, &mut other] {
        assert_eq!(heard(client).len(), 1);
        assert!(client.all().last().unwrap().len() <= LONGEST);
    }
    drop((one, other));
    // Those who were attached have gone: it waits.
    bulletin.post("third");
    bulletin.post("fourth: one too many");
    let mut late = join();
    assert_eq!(heard(&mut late), ["third"]);
    drop(bulletin);
    assert_eq!(late.hear(), None);
    assert!(late.waiting().is_none());
}

#[test]
fn clients_that_have_gone_hold_no_descriptor() {
    let bulletin = Bulletin::default();
    let _stays = bulletin.listen().unwrap();
    for _ in 0..100 {
        drop(bulletin.listen().unwrap());
    }
    assert_eq!(bulletin.0.lock().listeners.len(), 2);
}

#[test]
fn screen_is_given_back_as_it_was() {
    let (mut modes, mut client) = (Modes::default(), AttachedNotices::new(None));
    let shown = client.show("seen".to_owned(), &modes, SIZE);
    assert!(shown.contains("\x1b[?1049h") && shown.contains("pinfold: seen"), "{shown:?}");
    assert!(client.is_shown());
    assert_eq!(client.turn(b"x", SIZE), "", "a key at once was meant for the program");
    let more = client.show("more".to_owned(), &modes, SIZE);
    assert!(!more.contains("\x1b[?1049h") && more.contains("pinfold: more"), "{more:?}");
    assert!(client.end().ends_with("\x1b[?1049l"));
    assert_eq!((client.end(), client.is_shown()), (String::new(), false));

    modes.follow(b"\x1b[?1049h");
    let shown = client.show("seen".to_owned(), &modes, SIZE);
    assert!(shown.contains("\x1b7") && !shown.contains("\x1b[?1049h"), "{shown:?}");
    assert!(client.end().ends_with("\x1b[2J\x1b8"));
}
