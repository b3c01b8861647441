use proptest::prelude::*;

use super::*;

fn command() -> HostCommand {
    HostCommand {
        executable: b"git".to_vec(),
        args: vec![b"push".to_vec(), b"-x\n\xff\0".to_vec(), Vec::new()],
        cwd: b"/ws".to_vec(),
    }
}

#[test]
fn a_long_command_comes_in_parts_and_is_whole_again() {
    let long = HostCommand { args: vec![vec![b'a'; 3 * MAX_DATA + 7]], ..command() };
    let calls = Call::command(&long);
    assert_eq!(calls.len(), 4);
    let mut frames = Frames::default();
    for call in &calls {
        assert!(framed(call).len() <= MAX_MESSAGE);
        frames.add(&framed(call));
    }
    let mut whole = Vec::new();
    while let Some(call) = frames.take::<Call>().unwrap() {
        match call {
            Call::Part(part) | Call::Run(part) => whole.extend(part),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(HostCommand::decode(&whole).unwrap(), long);
}

#[test]
fn a_frame_longer_than_agreed_is_refused_before_it_is_there() {
    let mut frames = Frames::default();
    frames.add(&(MAX_MESSAGE as u32 + 1).to_le_bytes());
    assert_eq!(frames.take::<Call>(), Err(DecodeError::TooMuch("frame")));
}

fn any_reply() -> impl Strategy<Value = Reply> {
    let data = || proptest::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        Just(Reply::Waiting),
        data().prop_map(Reply::Output),
        data().prop_map(Reply::Errors),
        data().prop_map(Reply::Pack),
        (".*", ".*").prop_map(|(why, hint)| Reply::Refused { why, hint }),
        (".*", ".*").prop_map(|(reference, object)| Reply::Tracking { reference, object }),
        (".*", ".*", ".*").prop_map(|(branch, remote, merge)| Reply::Upstream {
            branch,
            remote,
            merge
        }),
        any::<u8>().prop_map(|code| Reply::Ended(Ended::Code(code))),
    ]
}

proptest! {
    #[test]
    fn a_stream_reads_back_however_it_is_cut(
        replies in proptest::collection::vec(any_reply(), 0..12),
        cuts in proptest::collection::vec(1_usize..40, 1..40),
    ) {
        let stream: Vec<u8> = replies.iter().flat_map(framed).collect();
        let (mut frames, mut read, mut rest) = (Frames::default(), Vec::new(), &stream[..]);
        for cut in cuts.iter().cycle() {
            let (head, tail) = rest.split_at((*cut).min(rest.len()));
            frames.add(head);
            while let Some(reply) = frames.take::<Reply>().unwrap() {
                read.push(reply);
            }
            rest = tail;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(read, replies);
        prop_assert!(frames.is_empty());
    }

    #[test]
    fn no_bytes_make_a_reader_panic_or_keep_more_than_a_frame(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..40),
    ) {
        let mut frames = Frames::default();
        'all: for chunk in &chunks {
            frames.add(chunk);
            loop {
                match frames.take::<Call>() {
                    Ok(Some(Call::Run(bytes))) => drop(HostCommand::decode(&bytes)),
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => break 'all,
                }
            }
            prop_assert!(frames.bytes.len() <= LENGTH + MAX_MESSAGE + chunk.len());
        }
    }

    #[test]
    fn one_wrong_byte_is_an_error_or_another_message(at in any::<usize>(), to in any::<u8>()) {
        let mut stream: Vec<u8> = Call::command(&command()).iter().flat_map(framed).collect();
        let at = at % stream.len();
        stream[at] = to;
        let mut frames = Frames::default();
        frames.add(&stream);
        while let Ok(Some(_)) = frames.take::<Call>() {}
    }
}
