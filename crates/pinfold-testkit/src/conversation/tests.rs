//! What is read from the requests of real clients.

use serde_json::json;

use super::*;

#[test]
fn the_working_directory_is_found_behind_prose_and_markup() {
    let prompts = [
        "# Env\n - Primary working directory: /home/x/repo\n - Is a git repository: true",
        "the current working directory. For example …\nwithin this working directory.\
         </description>\n<when_to_save>…\nWorking directory: /home/x/repo.",
        "<environment_context><cwd>/home/x/repo</cwd></environment_context>",
    ];
    for prompt in prompts {
        let body = json!({ "system": [{ "type": "text", "text": prompt }], "messages": [] });
        let cwd = Conversation::read(Api::Anthropic, &body).cwd;
        assert_eq!(cwd.as_deref(), Some("/home/x/repo"), "{prompt}");
    }
}

#[test]
fn tools_of_namespaces_and_of_input_items_are_seen() {
    let body = json!({
        "tools": [{ "type": "namespace", "name": "ns", "tools": [
            { "type": "function", "name": "inner", "parameters": { "properties": { "a": {} } } },
        ] }],
        "input": [
            { "type": "additional_tools", "tools": [{ "type": "custom", "name": "exec" }] },
            { "type": "message", "role": "user", "content": [{ "text": "hello" }] },
            { "type": "custom_tool_call", "call_id": "call_mock_4_0" },
            { "type": "custom_tool_call_output", "output": [{ "text": "a" }, { "text": "b" }] },
        ],
    });
    let talk = Conversation::read(Api::Responses, &body);
    assert_eq!(talk.namespaces["inner"], "ns");
    assert!(talk.custom.contains("exec") && talk.tools["exec"].is_empty());
    assert_eq!((talk.step, talk.last_result.as_str()), (5, "a\nb"));
    assert_eq!(talk.last_user, "hello");
}
