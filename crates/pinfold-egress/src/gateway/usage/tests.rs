use serde_json::json;

use super::*;

fn reader(content_type: &str, sealed: bool) -> Reader {
    Reader::new(content_type, sealed, true, Arc::default()).unwrap()
}

/// Returns what an answer used, however it is cut.
fn used(content_type: &str, text: impl AsRef<[u8]>) -> Option<(Tokens, bool)> {
    let text = text.as_ref();
    let read = |cut: usize| {
        let mut reader = reader(content_type, false);
        for part in [&text[..cut], &text[cut..]] {
            let piece = Bytes::copy_from_slice(part);
            reader.push(&piece, |_, _| Ok::<_, ()>(())).unwrap();
        }
        reader.end(400, true, true)
    };
    let whole = read(0);
    for cut in 1..text.len() {
        assert_eq!(read(cut), whole, "cut at {cut}");
    }
    whole
}

#[test]
fn usage_is_read_from_the_streams_of_all_apis() {
    let expected = Tokens { input: 60, output: 20, cache_read: 40, cache_write: 0 };
    let anthropic = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":\
        {\"model\":\"m\",\"usage\":{\"input_tokens\":60,\"cache_read_input_tokens\":40,\
        \"output_tokens\":1}}}\n\ndata: {\"type\":\"message_delta\",\"usage\":\
        {\"output_tokens\":20}}\r\n\r\n";
    let chat = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"choices\":[],\
        \"usage\":{\"prompt_tokens\":100,\"completion_tokens\":20,\"prompt_tokens_details\":\
        {\"cached_tokens\":40}}}\n\ndata: [DONE]\n\n";
    let responses = "data: {\"type\":\"response.completed\",\"response\":{\"usage\":\
        {\"input_tokens\":100,\"output_tokens\":20,\"input_tokens_details\":\
        {\"cached_tokens\":40}}}}\n\n";
    let gemini = "data: {\"usageMetadata\":{\"promptTokenCount\":100}}\r\n\r\ndata: \
        {\"modelVersion\":\"m\",\"usageMetadata\":{\"promptTokenCount\":100,\
        \"candidatesTokenCount\":15,\"thoughtsTokenCount\":5,\"cachedContentTokenCount\":40}}\r\n\r\n";
    for stream in [anthropic, chat, responses] {
        assert_eq!(used("text/event-stream", stream), Some((expected, false)), "{stream}");
    }
    let (tokens, _) = used("text/event-stream; charset=utf-8", gemini).unwrap();
    assert_eq!((tokens.output, tokens.cache_read), (20, 40));
}

#[test]
fn usage_is_read_from_whole_answers_and_text_is_none() {
    let text = r#"{"type":"message","content":[{"type":"tool_use","input":
        {"usage":{"input_tokens":9}},"text":"\"usage\":{\"input_tokens\":9}"}],
        "usage":{"input_tokens":7,"output_tokens":3,"cache_creation_input_tokens":2}}"#;
    let expected = Tokens { input: 7, output: 3, cache_read: 0, cache_write: 2 };
    assert_eq!(used("application/json", text), Some((expected, false)));
    assert_eq!(used("application/json", r#"{"data":[]}"#), None);
}

#[test]
fn uncounted_usage_is_estimated() {
    let silent = "data: {\"choices\":[{\"delta\":{\"content\":\"12345678\"}}]}\n\n";
    let expected = Tokens { input: 100, output: 2, ..Tokens::default() };
    assert_eq!(used("text/event-stream", silent), Some((expected, true)));
    let mut sealed = reader("application/json", true);
    sealed.push(&Bytes::from_static(&[0; 80]), |_, _| Ok::<_, ()>(())).unwrap();
    let expected = Tokens { input: 10, output: 20, ..Tokens::default() };
    assert_eq!(sealed.end(40, true, true), Some((expected, true)));
    assert!(Reader::new("text/html", false, false, Arc::default()).is_none());
}

/// Returns a stream of Bedrock's: events of a model in Base64.
fn chunks(events: &[&str]) -> Vec<u8> {
    let chunk = |event: &&str| {
        let payload = json!({"bytes": STANDARD.encode(event), "p": "abcdefgh"}).to_string();
        let headers = [(":event-type", "chunk"), (":message-type", "event")];
        event_stream::message(&headers, payload.as_bytes())
    };
    events.iter().flat_map(chunk).collect()
}

#[test]
fn usage_is_read_from_the_streams_of_bedrock() {
    const TYPE: &str = "application/vnd.amazon.eventstream";
    let anthropic = chunks(&[
        r#"{"type":"message_start","message":{"model":"m","usage":{"input_tokens":60,"cache_read_input_tokens":40,"output_tokens":1}}}"#,
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"\"usage\""}}"#,
        r#"{"type":"message_delta","usage":{"output_tokens":20}}"#,
        r#"{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":60,"outputTokenCount":20}}"#,
    ]);
    let expected = Tokens { input: 60, output: 20, cache_read: 40, cache_write: 0 };
    assert_eq!(used(TYPE, &anthropic), Some((expected, false)));
    // Models of others say it at the end alone.
    let other = chunks(&[
        r#"{"generation":"hello"}"#,
        r#"{"amazon-bedrock-invocationMetrics":{"inputTokenCount":9,"outputTokenCount":5}}"#,
    ]);
    let expected = Tokens { input: 9, output: 5, ..Tokens::default() };
    assert_eq!(used(TYPE, &other), Some((expected, false)));
    let converse =
        |payload: &str| event_stream::message(&[(":message-type", "event")], payload.as_bytes());
    let converse = [
        converse(r#"{"contentBlockIndex":0,"delta":{"text":"hello"},"p":"abc"}"#),
        converse(r#"{"usage":{"inputTokens":9,"outputTokens":5,"totalTokens":14}}"#),
    ];
    assert_eq!(used(TYPE, converse.concat()), Some((expected, false)));
    let whole = r#"{"output":{},"usage":{"inputTokens":9,"outputTokens":5}}"#;
    assert_eq!(used("application/json", whole), Some((expected, false)));
}

#[test]
fn a_stream_of_bedrock_that_cannot_be_read_is_estimated_by_its_length() {
    const TYPE: &str = "application/vnd.amazon.eventstream";
    let talk = chunks(&[r#"{"type":"x","delta":{"text":"12345678"}}"#]);
    let estimate = |output| Some((Tokens { input: 100, output, ..Tokens::default() }, true));
    assert_eq!(used(TYPE, &talk), estimate(2));
    // Cut within a message.
    assert_eq!(used(TYPE, &talk[..talk.len() - 1]), estimate(0));
    assert_eq!(used(TYPE, [&talk, &[0; 80][..]].concat()), estimate(22));
    assert_eq!(used(TYPE, vec![b'x'; 80]), estimate(20));
    // What is no JSON, no Base64, or an event that is not known counts whole.
    let message =
        |payload: &str| event_stream::message(&[(":message-type", "event")], payload.as_bytes());
    assert_eq!(used(TYPE, message(&"x".repeat(40))), estimate(10));
    assert_eq!(used(TYPE, message(&json!({"bytes": "!".repeat(40)}).to_string())), estimate(10));
    assert_eq!(used(TYPE, chunks(&[r#"{"out":[{"said":"12345678"}]}"#])), estimate(2));
    let mut reader = reader(TYPE, false);
    assert!(reader.is_stream() && !reader.is_broken());
    reader.push(&Bytes::from_static(&[0; 16]), |_, at| Err(at)).unwrap_err();
    assert!(reader.is_broken());
}

#[test]
fn unfinished_lines_of_all_answers_share_the_memory_for_bodies() {
    let readers = Arc::new(Readers::default());
    let piece = Bytes::from(vec![b'x'; MAX_KEPT / 2]);
    let read = |content_type: &str| {
        let mut reader = Reader::new(content_type, false, true, Arc::clone(&readers)).unwrap();
        reader.push(&piece, |_, _| Ok::<_, ()>(())).unwrap();
        reader
    };
    let types = ["text/event-stream", "application/jsonl"];
    let many: Vec<Reader> = types.into_iter().cycle().take(20).map(read).collect();
    assert!(many.iter().any(|reader| reader.lost) && !many[0].lost);
    drop(many);
    assert!(!read(types[0]).lost);
}
