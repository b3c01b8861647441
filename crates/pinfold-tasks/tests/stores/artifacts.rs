//! What an agent learns of its task, and the files that it keeps with it.

use pinfold_content::{Cid, Value};
use pinfold_tasks::{
    ArtifactLabel, Inquiry, NewMessage, Queue, QueueError, Store, Transaction as _,
};

use crate::promises::start;
use crate::testing::{TestClock, draft, id};

pub(crate) fn agent_reads_its_task_and_keeps_files_with_it<S: Store>(
    queue: &Queue<S>,
    clock: &TestClock,
) {
    queue.add(&draft(1)).unwrap();
    let holder = start(queue, 1);
    let ask = |inquiry: Inquiry, content: &[u8]| queue.answer(&holder, &inquiry, content);
    let text = |value: &Value, name: &str| value.text_of(name).unwrap().into_owned();
    let task = ask(Inquiry::Task, b"").unwrap().value;
    assert_eq!((text(&task, "id"), text(&task, "status")), (id(1).to_string(), "running".into()));
    let attempts = ask(Inquiry::Attempts, b"").unwrap().value;
    assert_eq!(text(&attempts.as_array().unwrap()[0], "status"), "running");
    let payload = r#"{"text":"x"}"#.to_owned();
    let message = NewMessage { at: None, kind: "info".to_owned(), payload };
    queue.append(&holder, &[message.clone(), message]).unwrap();
    let messages = |attempt, after| {
        ask(Inquiry::Messages { attempt, after, limit: 50 }, b"").map(|reply| reply.value)
    };
    assert_eq!(messages(1, None).unwrap().as_array().unwrap().len(), 2);
    assert_eq!(messages(1, Some(0)).unwrap().as_array().unwrap().len(), 1);
    assert_eq!(messages(2, None).unwrap_err(), "Not Found: Task attempt not found");

    let label = |title: &str| {
        Inquiry::AddArtifact(ArtifactLabel {
            kind: "log".to_owned(),
            title: title.to_owned(),
            content_type: "text/plain".to_owned(),
            content_encoding: None,
        })
    };
    // Several parts.
    let content: Vec<u8> = (0..2_000_000_u32).map(|number| (number % 251) as u8).collect();
    let kept = ask(label("first"), &content).unwrap().value;
    let cid = text(&kept, "cid");
    assert_eq!(cid, Cid::of_bytes(&content).to_string());
    assert_eq!(ask(label("again"), &content).unwrap().value, kept);
    let read = |attempt, cid: &str| {
        ask(Inquiry::Artifact { attempt, cid: cid.to_owned() }, b"").map(|reply| reply.content)
    };
    assert_eq!(read(None, &cid).unwrap(), content);
    assert_eq!(read(Some(1), &cid).unwrap(), content);
    for (attempt, cid) in [(Some(2), cid.as_str()), (None, "../x")] {
        assert_eq!(read(attempt, cid).unwrap_err(), "Not Found: Task artifact not found");
    }
    for number in 1..32_u8 {
        ask(label("more"), &[number]).unwrap();
    }
    assert_eq!(
        ask(label("one too many"), b"").unwrap_err(),
        "Conflict: Attempt has 32 artifacts already"
    );
    let mut cursor = None;
    let mut count = 0;
    loop {
        let page =
            ask(Inquiry::Artifacts { limit: 20, cursor: cursor.clone() }, b"").unwrap().value;
        count += page.get("artifacts").and_then(Value::as_array).unwrap().len();
        cursor = page.text_of("nextCursor").map(|next| next.into_owned());
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(count, 32);
    let wrong = ask(label("two\nlines"), b"x").unwrap_err();
    assert!(wrong.starts_with("Validation Failed: title"), "{wrong}");
    // One that holds the attempt no more keeps nothing, and what is kept goes with the task.
    clock.advance(100_000);
    assert!(ask(label("late"), b"late").unwrap_err().starts_with("Conflict: "));
    queue.cancel(id(1), "enough").ok();
    queue.remove(id(1)).unwrap();
    let left = queue.store().read(|transaction| {
        transaction.notes("artifact-content", "", "", 10).map_err(QueueError::from)
    });
    assert_eq!(left.unwrap(), []);
    assert_eq!(ask(Inquiry::Task, b"").unwrap_err(), "Not Found: Task not found");
}
