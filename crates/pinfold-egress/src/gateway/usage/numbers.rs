//! The numbers in answers of all APIs.

use pinfold_policy::prices::Tokens;
use serde_json::Value;

/// Returns what was used according to an object of an answer.
pub(super) fn usage_of(object: &Value) -> Option<Tokens> {
    let keys = ["usage", "usageMetadata", "amazon-bedrock-invocationMetrics"];
    keys.into_iter().find_map(|key| tokens(&object[key]))
}

pub(super) fn sum_of(one: Tokens, other: Tokens) -> Tokens {
    Tokens {
        input: one.input.saturating_add(other.input),
        output: one.output.saturating_add(other.output),
        cache_read: one.cache_read.saturating_add(other.cache_read),
        cache_write: one.cache_write.saturating_add(other.cache_write),
    }
}

/// Returns the numbers of any of the APIs.
fn tokens(usage: &Value) -> Option<Tokens> {
    let usage = usage.as_object()?;
    let count = |key: &str| usage.get(key).and_then(Value::as_u64);
    let detail = |key: &str, inner: &str| usage.get(key).and_then(|v| v[inner].as_u64());
    let sum =
        |[one, other]: [&str; 2]| count(one).unwrap_or(0).saturating_add(count(other).unwrap_or(0));
    let plain = |keys: [&str; 4]| {
        let [input, output, cache_read, cache_write] = keys.map(|key| count(key).unwrap_or(0));
        Tokens { input, output, cache_read, cache_write }
    };
    // Chat Completions and Responses count what a cache held as input too; so does Gemini.
    let (all, cached, output) = if count("prompt_tokens").is_some() {
        let cached = detail("prompt_tokens_details", "cached_tokens");
        (count("prompt_tokens"), cached, count("completion_tokens").unwrap_or(0))
    } else if count("promptTokenCount").is_some() {
        let output = sum(["candidatesTokenCount", "thoughtsTokenCount"]);
        let all = sum(["promptTokenCount", "toolUsePromptTokenCount"]);
        (Some(all), count("cachedContentTokenCount"), output)
    } else if let Some(cached) = detail("input_tokens_details", "cached_tokens") {
        (count("input_tokens"), Some(cached), count("output_tokens").unwrap_or(0))
    } else if count("outputTokens").or(count("inputTokens")).is_some() {
        // Bedrock's Converse.
        return Some(plain([
            "inputTokens",
            "outputTokens",
            "cacheReadInputTokens",
            "cacheWriteInputTokens",
        ]));
    } else if count("outputTokenCount").or(count("inputTokenCount")).is_some() {
        // What Bedrock adds to the last event of any model.
        return Some(plain([
            "inputTokenCount",
            "outputTokenCount",
            "cacheReadInputTokenCount",
            "cacheWriteInputTokenCount",
        ]));
    } else {
        let output = count("output_tokens");
        output.or(count("input_tokens"))?;
        return Some(plain([
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ]));
    };
    let (all, cache_read) = (all.unwrap_or(0), cached.unwrap_or(0));
    Some(Tokens { input: all.saturating_sub(cache_read), output, cache_read, cache_write: 0 })
}

/// Characters that an event of any of the APIs says.
pub(super) fn said(event: &Value) -> u64 {
    let delta = &event["delta"];
    let choice = &event["choices"][0]["delta"];
    let texts = [
        delta,
        &delta["text"],
        &delta["thinking"],
        &delta["partial_json"],
        &delta["reasoningContent"]["text"],
        &delta["toolUse"]["input"],
        &choice["content"],
        &choice["reasoning_content"],
        &choice["tool_calls"][0]["function"]["arguments"],
        &event["candidates"][0]["content"]["parts"][0]["text"],
    ];
    texts.into_iter().filter_map(Value::as_str).map(|text| text.len() as u64).sum()
}

/// Characters of all texts in an event of a model whose events are not known.
pub(super) fn texts(event: &Value) -> u64 {
    match event {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(texts).sum(),
        Value::Object(object) => object.values().map(texts).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
