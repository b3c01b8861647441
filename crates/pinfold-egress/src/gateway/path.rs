//! What the path of a request says: its one form, a model of Gemini's, and whether it is of a kind
//! that cannot be counted.

use crate::percent;

/// What a path asks for, as far as lists and budgets need to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One request to a model, or none.
    Usual,
    /// What counts tokens and uses none.
    Counting,
    /// What a model answers without words.
    Embedding,
    /// Many requests in one, answered later.
    Batch,
    /// Work that goes on after the answer, or sessions of the provider's.
    Deferred,
}

/// Segments of paths whose requests are batches (Anthropic, OpenAI).
const BATCHES: [&str; 2] = ["batches", "batch"];

/// Segments of paths that begin work whose usage no answer reports: runs of assistants, evaluations,
/// training, videos, sessions (OpenAI, Anthropic), and what other APIs answer later.
const DEFERRED: [&str; 11] = [
    "runs",
    "evals",
    "fine_tuning",
    "fine-tunes",
    "videos",
    "realtime",
    "sessions",
    "async",
    "deferred",
    "operations",
    "research",
];

/// Ends of paths that count tokens, or are free (Anthropic, OpenAI).
const COUNTING: [&str; 3] = ["/count_tokens", "/responses/input_tokens", "/moderations"];

/// Returns the path with nothing in it that two servers could read in two ways. None if it has any of
/// that: an empty or dotted segment, a parameter (`;`), a backslash, a control character, anything above
/// ASCII, or an encoded slash, percent sign or question mark.
pub(super) fn plain(path: &str) -> Option<String> {
    let decoded = path.strip_prefix('/')?.split('/').map(percent::decoded);
    let mut plain = String::with_capacity(path.len());
    for segment in decoded {
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,=:@".contains(&byte);
        if !segment.bytes().all(is_plain) || matches!(segment.as_str(), "" | "." | "..") {
            return None;
        }
        plain.push('/');
        plain.push_str(&segment);
    }
    Some(plain)
}

/// Returns the kind of a plain path.
pub(super) fn kind(path: &str) -> Kind {
    let path = path.to_ascii_lowercase();
    let method = path
        .rsplit('/')
        .next()
        .and_then(|last| last.split_once(':'))
        .map_or("", |(_, method)| method);
    let has = |names: &[&str]| path.split('/').any(|segment| names.contains(&segment));
    let is_one_batch = method == "batchembedcontents";
    if has(&BATCHES) || (method.contains("batch") && !is_one_batch) {
        Kind::Batch
    } else if has(&DEFERRED) || method.contains("longrunning") || method.contains("bidi") {
        Kind::Deferred
    } else if COUNTING.iter().any(|end| path.ends_with(end)) || method == "counttokens" {
        Kind::Counting
    } else if path.ends_with("/embeddings") || method == "embedcontent" || is_one_batch {
        Kind::Embedding
    } else {
        Kind::Usual
    }
}

/// How a path of Gemini's says which model is meant.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Gemini {
    /// By its name, as a list has it.
    Model(String),
    /// The body says it (Gemini's imitation of OpenAI's API).
    InBody,
    /// Not in a way that is known.
    Unknown,
}

/// Reads the model in a plain path of Gemini's: `/v1beta/models/NAME:generateContent`. One of another
/// collection is named with it: `tunedModels/NAME`.
pub(super) fn of_gemini(path: &str) -> Gemini {
    let segments: Vec<&str> = path.split('/').skip(2).collect();
    match segments.as_slice() {
        ["openai", _, ..] => Gemini::InBody,
        [collection, last] => match (*collection, last.split_once(':')) {
            ("models", Some((name, method))) if is_method(method) && !name.is_empty() => {
                Gemini::Model(name.to_owned())
            }
            ("tunedModels" | "dynamic", Some((name, method)))
                if is_method(method) && !name.is_empty() =>
            {
                Gemini::Model(format!("{collection}/{name}"))
            }
            _ => Gemini::Unknown,
        },
        _ => Gemini::Unknown,
    }
}

fn is_method(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_form_or_is_refused() {
        for (path, expected) in [
            ("/v1/messages", "/v1/messages"),
            ("/v1/m%65ssages/b%61tches", "/v1/messages/batches"),
            ("/v1beta/models/a%2Db:x", "/v1beta/models/a-b:x"),
        ] {
            assert_eq!(plain(path).as_deref(), Some(expected), "{path}");
        }
        for path in [
            "",
            "v1/x",
            "/v1//x",
            "//v1/x",
            "/v1/x/",
            "/v1/./x",
            "/v1/../x",
            "/v1/%2e%2e/x",
            "/v1/a;b",
            "/v1/a%3bb",
            "/v1/a\\b",
            "/v1/a%5Cb",
            "/v1/a%2fb",
            "/v1/a%252fb",
            "/v1/a%3fb",
            "/v1/a%00",
            "/v1/a%0ab",
            "/v1/caf\u{e9}",
            "/v1/caf%c3%a9",
            "/v1/%c0%ae",
            "/v1/%u002e",
            "/v1/a%20b",
            "/v1/a%zz",
        ] {
            assert_eq!(plain(path), None, "{path}");
        }
    }

    #[test]
    fn uncountable_paths_are_recognised() {
        for (path, expected) in [
            ("/v1/messages", Kind::Usual),
            ("/v1/responses/resp_1/cancel", Kind::Usual),
            ("/v1/messages/count_tokens", Kind::Counting),
            ("/v1beta/models/m:countTokens", Kind::Counting),
            ("/v1/responses/input_tokens", Kind::Counting),
            ("/v1/embeddings", Kind::Embedding),
            ("/v1beta/models/m:batchEmbedContents", Kind::Embedding),
            ("/v1/messages/batches", Kind::Batch),
            ("/v1/messages/Batches", Kind::Batch),
            ("/v1/batches/b_1/cancel", Kind::Batch),
            ("/v1beta/models/m:batchGenerateContent", Kind::Batch),
            ("/v1beta/models/m:asyncBatchEmbedContent", Kind::Batch),
            ("/v1/threads/t_1/runs", Kind::Deferred),
            ("/v1/threads/runs", Kind::Deferred),
            ("/v1/realtime/client_secrets", Kind::Deferred),
            ("/v1beta/models/veo:predictLongRunning", Kind::Deferred),
        ] {
            assert_eq!(kind(path), expected, "{path}");
        }
    }

    #[test]
    fn a_path_of_gemini_names_its_model_in_one_shape() {
        let model = |name: &str| Gemini::Model(name.to_owned());
        for (path, expected) in [
            ("/v1beta/models/gemini-2.5-pro:streamGenerateContent", model("gemini-2.5-pro")),
            ("/v1beta/tunedModels/mine:generateContent", model("tunedModels/mine")),
            ("/v1beta/dynamic/x:generateContent", model("dynamic/x")),
            ("/v1beta/openai/chat/completions", Gemini::InBody),
            ("/v1beta/openai", Gemini::Unknown),
            ("/v1beta/models", Gemini::Unknown),
            ("/v1beta/models/a/b:generateContent", Gemini::Unknown),
            ("/v1beta/x/models/a:generateContent", Gemini::Unknown),
            ("/v1beta/models/:generateContent", Gemini::Unknown),
            ("/v1beta/models/a", Gemini::Unknown),
            ("/v1beta/models/a:b:c", Gemini::Unknown),
            ("/v1beta/publishers/google/models/a:generateContent", Gemini::Unknown),
            ("/v1beta/cachedContents", Gemini::Unknown),
        ] {
            assert_eq!(of_gemini(path), expected, "{path}");
        }
    }
}
