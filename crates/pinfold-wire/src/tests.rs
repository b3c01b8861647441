use std::os::fd::AsFd;

use proptest::prelude::*;

use crate::{
    Channel, Cover, CoverKind, DecodeError, Ended, Limit, Order, Program, Report, Step, StreamEnd,
    Streams, Wire,
};

fn cover() -> impl Strategy<Value = Cover> {
    let kind = prop_oneof![
        Just(CoverKind::Hide),
        Just(CoverKind::ReadOnly),
        Just(CoverKind::Pin),
        any::<Vec<u8>>().prop_map(CoverKind::Link),
        any::<Vec<u8>>().prop_map(CoverKind::Replace),
    ];
    (any::<Vec<u8>>(), kind).prop_map(|(path, kind)| Cover { path, kind })
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused_without_panic(bytes in any::<Vec<u8>>()) {
        let _ = Order::decode(&bytes);
        let _ = Report::decode(&bytes);
    }

    #[test]
    fn covers_come_back_as_they_went(covers in proptest::collection::vec(cover(), 0..20)) {
        for order in [Order::Cover(covers.clone()), Order::Seal(covers)] {
            prop_assert_eq!(Order::decode(&order.encode()).unwrap(), order);
        }
    }
}

#[test]
fn every_report_comes_back_as_it_went() {
    let reports = [
        Report::Listening { handed_over: true },
        Report::Terminal,
        Report::Socket,
        Report::Finished,
        Report::Times(Step::ALL.iter().map(|step| (*step, 7)).collect()),
        Report::Stopped(20),
        Report::Limit(Limit::Disk),
        Report::Ended(Ended::Code(3)),
        Report::Ended(Ended::Signal(9)),
        Report::TaskEnded { id: 7, ended: Ended::Code(1) },
        Report::TaskFailed { id: 7, errno: 2, detail: b"x".to_vec() },
        Report::TaskTerminal(7),
        Report::TaskStopped(7),
        Report::Failed { step: Step::Grants, errno: 2, detail: b"/x\xff".to_vec() },
    ];
    for report in reports {
        assert_eq!(Report::decode(&report.encode()).unwrap(), report);
    }
}

fn program(words: &[&str]) -> Program {
    let argv = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    Program { argv, env: vec![b"A=".to_vec(), b"B=x=y".to_vec()], cwd: b"/w".to_vec() }
}

#[test]
fn orders_to_run_come_back_as_they_went() {
    let rest = program(&["sh", "-c", "true"]).encode();
    let ends = [StreamEnd::Terminal, StreamEnd::Descriptor, StreamEnd::Same(1)];
    let streams = |window| Streams { ends, window };
    for order in [
        Order::Start(vec![b"A=1".to_vec()]),
        Order::Part(rest.clone()),
        Order::Run { id: 3, rest: rest.clone(), streams: streams(None) },
        Order::SignalTask { id: 3, signal: 15 },
        Order::EndTask(3),
        Order::Finish,
        Order::Command { rest: rest.clone(), streams: streams(None) },
        Order::Command { rest, streams: streams(Some((24, 80))) },
    ] {
        assert_eq!(Order::decode(&order.encode()).unwrap(), order);
    }
}

#[test]
fn a_program_longer_than_a_message_arrives_whole() {
    let (left, right) = Channel::pair().unwrap();
    let program = program(&["printf", &"x".repeat(2_000_000), "end"]);
    let sender = {
        let program = program.clone();
        let null = std::fs::File::open("/dev/null").unwrap();
        let streams = Streams { ends: [StreamEnd::Descriptor; 3], window: None };
        let run = move || left.run(7, &program, streams, &[null.as_fd(); 3]).unwrap();
        std::thread::spawn(run)
    };
    let mut whole = Vec::new();
    while let Some(received) = right.receive::<Order>().unwrap() {
        match received.message {
            Order::Part(part) => whole.extend(part),
            Order::Run { id: 7, rest, .. } => {
                whole.extend(rest);
                assert_eq!(received.descriptors.len(), 3);
                break;
            }
            other => panic!("not a program: {other:?}"),
        }
    }
    sender.join().unwrap();
    assert_eq!(Program::decode(&whole).unwrap(), program);
}

#[test]
fn descriptors_ride_along_and_the_end_is_seen() {
    let (left, right) = Channel::pair().unwrap();
    let (_reader, writer) = rustix::pipe::pipe().unwrap();
    left.send(&Report::Listening { handed_over: true }, &[writer.as_fd()]).unwrap();
    let received = right.receive::<Report>().unwrap().unwrap();
    assert_eq!(received.descriptors.len(), 1);
    drop(left);
    assert!(right.receive::<Report>().unwrap().is_none());
}

#[test]
fn what_was_sent_is_read_although_the_peer_went_without_reading() {
    let (left, right) = Channel::pair().unwrap();
    right.send(&Order::Finish, &[]).unwrap();
    left.send(&Report::Ended(Ended::Code(3)), &[]).unwrap();
    drop(left);
    let received = right.receive::<Report>().unwrap().unwrap();
    assert_eq!(received.message, Report::Ended(Ended::Code(3)));
    assert!(right.receive::<Report>().unwrap().is_none());
}

#[test]
fn many_covers_are_split_into_messages_that_fit() {
    let (left, right) = Channel::pair().unwrap();
    let covers: Vec<Cover> = (0..3000)
        .map(|n| Cover { path: format!("/w/{n}").repeat(5).into_bytes(), kind: CoverKind::Hide })
        .collect();
    let sender = {
        let covers = covers.clone();
        std::thread::spawn(move || left.seal(covers).unwrap())
    };
    let mut got = Vec::new();
    while let Some(received) = right.receive::<Order>().unwrap() {
        match received.message {
            Order::Cover(batch) => got.extend(batch),
            Order::Seal(batch) => {
                got.extend(batch);
                break;
            }
            other => panic!("not covers: {other:?}"),
        }
    }
    sender.join().unwrap();
    assert_eq!(got, covers);
}

#[test]
fn more_than_a_sender_sends_is_refused() {
    let step = [&[1_u8][..], &[0; 8]].concat();
    let steps = |count: usize| [&[3, count as u8][..], &step.repeat(count)].concat();
    assert!(Report::decode(&steps(Step::ALL.len())).is_ok());
    assert_eq!(Report::decode(&steps(Step::ALL.len() + 1)), Err(DecodeError::TooMuch("steps")));
    let failed = [&[8, 1, 0, 0, 0, 0][..], &8193_u32.to_le_bytes(), &[b'x'; 8193]].concat();
    assert_eq!(Report::decode(&failed), Err(DecodeError::TooMuch("detail")));
}
