use std::os::fd::AsFd;

use proptest::prelude::*;

use crate::{
    Attributes, Bounds, Channel, DecodeError, Ended, LastSteps, LaunchOrder, Limit, LineIn,
    LineOut, Mask, MaskKind, NotReturned, Order, Program, Report, Step, StreamEnd, Streams, Wire,
};

fn mask() -> impl Strategy<Value = Mask> {
    let kind = prop_oneof![
        Just(MaskKind::Hide),
        Just(MaskKind::ReadOnly),
        Just(MaskKind::Pin),
        any::<Vec<u8>>().prop_map(MaskKind::Replace),
        any::<Vec<u8>>().prop_map(MaskKind::HideWith),
        Just(MaskKind::Close),
        any::<Vec<u8>>().prop_map(MaskKind::Borrow),
    ];
    (any::<Vec<u8>>(), kind).prop_map(|(path, kind)| Mask { path, kind })
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused_without_panic(bytes in any::<Vec<u8>>()) {
        let _ = LaunchOrder::decode(&bytes);
        let _ = Order::decode(&bytes);
        let _ = Report::decode(&bytes);
        let _ = LineIn::decode(&bytes);
        let _ = LineOut::decode(&bytes);
    }

    #[test]
    fn masks_come_back_as_they_went(masks in proptest::collection::vec(mask(), 0..20)) {
        for order in [LaunchOrder::Mask(masks.clone()), LaunchOrder::Seal(masks)] {
            prop_assert_eq!(LaunchOrder::decode(&order.encode()).unwrap(), order);
        }
    }
}

fn reports() -> Vec<Report> {
    vec![
        Report::Listening { handed_over: true, has_view: false },
        Report::Born,
        Report::Terminal,
        Report::Socket,
        Report::Finished,
        Report::Times(Step::ALL.iter().map(|step| (*step, 7)).collect()),
        Report::Stopped(20),
        Report::Limit(Limit::Disk),
        Report::Part(vec![0, 255]),
        Report::Returned(None),
        Report::Returned(Some(NotReturned::Missing)),
        Report::Returned(Some(NotReturned::System)),
        Report::Ended(Ended::Code(3)),
        Report::Ended(Ended::Signal(9)),
        Report::TaskEnded { id: 7, ended: Ended::Code(1) },
        Report::TaskFailed { id: 7, step: Step::Directory, errno: 2, detail: b"x".to_vec() },
        Report::TaskTerminal(7),
        Report::TaskStopped(7),
        Report::TaskLimit { id: 7, limit: Limit::Memory },
        Report::Failed { step: Step::Grants, errno: 2, detail: b"/x\xff".to_vec() },
    ]
}

#[test]
fn every_report_comes_back_as_it_went() {
    for report in reports() {
        assert_eq!(Report::decode(&report.encode()).unwrap(), report);
    }
}

fn program(words: &[&str]) -> Program {
    let argv = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    Program { argv, env: vec![b"A=".to_vec(), b"B=x=y".to_vec()], cwd: b"/w".to_vec(), ignored: 3 }
}

fn last_steps() -> LastSteps {
    LastSteps {
        root_by_name: true,
        landlock: 7,
        writable: vec![b"/w".to_vec(), b"/tmp".to_vec()],
        memory: Some(1 << 30),
        files: Some(64),
        changes: Some(b"/w".to_vec()),
        nested: true,
        leaves_nothing: true,
        own_kernel: true,
        ..LastSteps::default()
    }
}

fn launch_orders() -> Vec<LaunchOrder> {
    let rest = program(&["sh", "-c", "true"]).encode();
    let ends = [StreamEnd::Terminal, StreamEnd::Descriptor, StreamEnd::Same(1)];
    let streams = |window| Streams { window, ..Streams::plain(ends) };
    let terminal = rustix::pty::openpt(rustix::pty::OpenptFlags::NOCTTY).unwrap();
    let attributes = Some(Attributes::of(&rustix::termios::tcgetattr(&terminal).unwrap()));
    let relayed = Streams { attributes, is_relayed: true, has_further: true, ..streams(None) };
    let masks = [MaskKind::Pin, MaskKind::Replace(b"/l".to_vec())]
        .map(|kind| Mask { path: b"/p".to_vec(), kind })
        .to_vec();
    vec![
        LaunchOrder::Mask(masks.clone()),
        LaunchOrder::MaskNew(masks.clone()),
        LaunchOrder::Mapped,
        LaunchOrder::Seal(masks),
        LaunchOrder::Part(rest.clone()),
        LaunchOrder::Plan(rest.clone()),
        LaunchOrder::LastSteps(last_steps().encode()),
        LaunchOrder::Command { rest: rest.clone(), streams: streams(None) },
        LaunchOrder::Command { rest: rest.clone(), streams: streams(Some((24, 80))) },
        LaunchOrder::Command { rest, streams: relayed },
    ]
}

fn orders() -> Vec<Order> {
    let rest = program(&["sh", "-c", "true"]).encode();
    let ends = [StreamEnd::Terminal, StreamEnd::Descriptor, StreamEnd::Same(1)];
    vec![
        Order::Signal(15),
        Order::Socket,
        Order::Start(vec![b"A=1".to_vec()]),
        Order::Part(rest.clone()),
        Order::Run {
            id: 3,
            bounds: Bounds { files: Some(64), nice: 5, groups: 2, memory: None, pids: Some(9) },
            rest,
            streams: Streams::plain(ends),
        },
        Order::SignalTask { id: 3, signal: 15 },
        Order::EndTask(3),
        Order::Return { path: b"/tmp/spec.md".to_vec(), most: 7 },
        Order::Finish,
        Order::Terminal { task: None, window: Some((24, 80)) },
        Order::Terminal { task: Some(3), window: None },
    ]
}

#[test]
fn every_order_comes_back_as_it_went() {
    for order in orders() {
        assert_eq!(Order::decode(&order.encode()).unwrap(), order);
    }
    for order in launch_orders() {
        assert_eq!(LaunchOrder::decode(&order.encode()).unwrap(), order);
    }
}

#[test]
fn an_order_of_one_kind_is_not_read_as_the_other() {
    for order in launch_orders().iter().filter(|order| !matches!(order, LaunchOrder::Part(_))) {
        assert!(Order::decode(&order.encode()).is_err(), "{order:?}");
    }
    for order in orders().iter().filter(|order| !matches!(order, Order::Part(_))) {
        assert!(LaunchOrder::decode(&order.encode()).is_err(), "{order:?}");
    }
}

fn lines() -> (Vec<LineIn>, Vec<LineOut>) {
    (
        vec![LineIn::Typed(b"\x03x".to_vec()), LineIn::Window((24, 80)), LineIn::Shown],
        vec![LineOut::Open, LineOut::Written(b"\x1b[m".to_vec()), LineOut::End],
    )
}

#[test]
fn terminal_line_returns_bytes_as_they_went() {
    let (inward, outward) = lines();
    for message in inward {
        assert_eq!(LineIn::decode(&message.encode()).unwrap(), message);
    }
    for message in outward {
        assert_eq!(LineOut::decode(&message.encode()).unwrap(), message);
    }
}

#[test]
fn last_steps_come_back_as_they_went() {
    for steps in [LastSteps::default(), last_steps()] {
        assert_eq!(LastSteps::decode(&steps.encode()).unwrap(), steps);
    }
}

/// A message that was changed anywhere is another message, or none, and what is read is written as it
/// was. Every kind, both ways, 20 000 changes of each from one seed.
#[test]
fn changed_messages_are_read_or_refused() {
    fn follow<M: Wire + std::fmt::Debug + PartialEq>(messages: Vec<M>) {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move |below: usize| {
            // xorshift64* (Vigna 2016).
            seed ^= seed >> 12;
            seed ^= seed << 25;
            seed ^= seed >> 27;
            (seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below.max(1)
        };
        for message in messages {
            let encoded = message.encode();
            for _ in 0..20_000 {
                let mut changed = encoded.clone();
                for _ in 0..=next(3) {
                    let at = next(changed.len());
                    match next(4) {
                        0 => changed.truncate(at),
                        1 => changed.insert(at, next(256) as u8),
                        2 => changed.extend_from_within(..at),
                        _ if at < changed.len() => {
                            changed[at] = [0, 0xff, next(256) as u8][next(3)]
                        }
                        _ => {}
                    }
                }
                if let Ok(read) = M::decode(&changed) {
                    assert_eq!(M::decode(&read.encode()).unwrap(), read);
                }
            }
        }
    }
    follow(orders());
    follow(reports());
    follow(vec![program(&["sh", "-c", "true"])]);
    follow(vec![last_steps()]);
    let (inward, outward) = lines();
    follow(inward);
    follow(outward);
}

/// A receiver without room for the descriptors still gets the message; more than agreed are all
/// closed.
#[test]
fn descriptors_that_do_not_fit_are_closed() {
    let (left, right) = Channel::pair().unwrap();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
    let mut ancillary = rustix::net::SendAncillaryBuffer::new(&mut space);
    let many = [writer.as_fd(); 20];
    assert!(ancillary.push(rustix::net::SendAncillaryMessage::ScmRights(&many)));
    let bytes = Report::TaskTerminal(7).encode();
    let message = [std::io::IoSlice::new(&bytes)];
    let flags = rustix::net::SendFlags::empty();
    rustix::net::sendmsg(&left, &message, &mut ancillary, flags).unwrap();
    drop(writer);
    let received = right.receive::<Report>().unwrap().unwrap();
    assert_eq!((received.message, received.descriptors.len()), (Report::TaskTerminal(7), 0));
    // Nobody has the other end any more.
    assert_eq!(rustix::io::read(&reader, &mut [0; 1]), Ok(0));
}

#[test]
fn a_program_longer_than_a_message_arrives_whole() {
    let (left, right) = Channel::pair().unwrap();
    let program = program(&["printf", &"x".repeat(2_000_000), "end"]);
    let sender = {
        let program = program.clone();
        let null = std::fs::File::open("/dev/null").unwrap();
        let streams = Streams::plain([StreamEnd::Descriptor; 3]);
        let run =
            move || left.run(7, Bounds::default(), &program, streams, &[null.as_fd(); 3]).unwrap();
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
    left.send(&Report::Listening { handed_over: true, has_view: false }, &[writer.as_fd()])
        .unwrap();
    let received = right.receive::<Report>().unwrap().unwrap();
    assert_eq!(received.descriptors.len(), 1);
    drop(left);
    assert!(right.receive::<Report>().unwrap().is_none());
}

#[test]
fn message_is_received_although_its_sender_left_without_reading() {
    let (left, right) = Channel::pair().unwrap();
    right.send(&Order::Finish, &[]).unwrap();
    left.send(&Report::Ended(Ended::Code(3)), &[]).unwrap();
    drop(left);
    let received = right.receive::<Report>().unwrap().unwrap();
    assert_eq!(received.message, Report::Ended(Ended::Code(3)));
    assert!(right.receive::<Report>().unwrap().is_none());
}

#[test]
fn many_masks_are_split_into_messages_that_fit() {
    let (left, right) = Channel::pair().unwrap();
    let masks: Vec<Mask> = (0..3000)
        .map(|n| Mask { path: format!("/w/{n}").repeat(5).into_bytes(), kind: MaskKind::Hide })
        .collect();
    let sender = {
        let masks = masks.clone();
        std::thread::spawn(move || left.seal(masks).unwrap())
    };
    let mut got = Vec::new();
    while let Some(received) = right.receive::<LaunchOrder>().unwrap() {
        match received.message {
            LaunchOrder::Mask(batch) => got.extend(batch),
            LaunchOrder::Seal(batch) => {
                got.extend(batch);
                break;
            }
            other => panic!("not masks: {other:?}"),
        }
    }
    sender.join().unwrap();
    assert_eq!(got, masks);
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
