//! What a package's description maps names to (nodejs.org/api/packages.html).

use serde_json::Value;

use crate::api::{self, Api};
use crate::finding::{SAY_IT, Spot};

/// Members that name files which are loaded.
const LOADED: [&str; 6] = ["main", "module", "bin", "exports", "imports", "pi"];

/// Reasons to refuse a `package.json`, and the files that it names.
pub(crate) fn inspect(text: &str) -> (Vec<Spot>, Vec<(u32, String)>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let manifest: Value = match serde_json::from_str(text) {
        Ok(manifest) => manifest,
        // Node does not load from what it cannot parse, but nests deeper than this.
        Err(error) if error.to_string().starts_with("recursion limit") => {
            let what = "a package.json that is nested too deeply".to_owned();
            return (vec![Spot { offset: 0, what, replacement: SAY_IT }], Vec::new());
        }
        Err(_) => return (Vec::new(), Vec::new()),
    };
    let mut files = Vec::new();
    for name in LOADED {
        strings(manifest.get(name), &mut files);
    }
    let mut mapped = Vec::new();
    strings(manifest.get("imports"), &mut mapped);
    let place = |word: &str| {
        let place = text.find(&format!("\"{word}\"")).unwrap_or(0);
        u32::try_from(place).unwrap_or(0)
    };
    let spots = mapped.iter().filter_map(|word| leads_to_one(word, place(word))).collect();
    (spots, files.into_iter().map(|file| (place(&file), file)).collect())
}

/// Returns why a name that `imports` maps to is refused. What a program asks for stands in the place of
/// `*` ("Subpath patterns").
fn leads_to_one(word: &str, offset: u32) -> Option<Spot> {
    let name = api::plain(word);
    if let Some(api) = Api::of_specifier(&name) {
        return Some(Spot::api(offset, api, "a name that \"imports\" maps to it"));
    }
    let (before, _) = name.split_once('*')?;
    let what = "names that \"imports\" maps to any module";
    Api::may_begin(before).then(|| Spot::unclear(offset, what))
}

fn strings(value: Option<&Value>, into: &mut Vec<String>) {
    match value {
        Some(Value::String(text)) => into.push(text.clone()),
        Some(Value::Array(list)) => list.iter().for_each(|value| strings(Some(value), into)),
        Some(Value::Object(map)) => map.values().for_each(|value| strings(Some(value), into)),
        _ => {}
    }
}
