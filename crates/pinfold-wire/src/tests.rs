use std::os::fd::AsFd;

use proptest::prelude::*;

use crate::{
    Channel, Cover, CoverKind, DecodeError, Ended, Limit, Order, Report, Step, Task, Wire,
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
        Report::Times(Step::ALL.iter().map(|step| (*step, 7)).collect()),
        Report::Stopped(20),
        Report::Limit(Limit::Disk),
        Report::Ended(Ended::Code(3)),
        Report::Ended(Ended::Signal(9)),
        Report::TaskEnded { id: 7, ended: Ended::Code(1) },
        Report::Failed { step: Step::Grants, errno: 2, detail: b"/x\xff".to_vec() },
    ];
    for report in reports {
        assert_eq!(Report::decode(&report.encode()).unwrap(), report);
    }
}

#[test]
fn orders_to_run_come_back_as_they_went() {
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let (argv, env) = (words(&["sh", "-c", "true"]), words(&["A=", "B=x=y"]));
    for order in
        [Order::Start(words(&["A=1"])), Order::Run(Task { id: 3, argv, env, cwd: b"/w".to_vec() })]
    {
        assert_eq!(Order::decode(&order.encode()).unwrap(), order);
    }
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
