//! Looks into one file.

use std::path::Path;

use oxc_allocator::Allocator;
use oxc_parser::{ParseOptions, Parser, ParserReturn};
use oxc_semantic::SemanticBuilder;
use oxc_span::SourceType;

use crate::finding::{SAY_IT, Spot};
use crate::trace::{self, FileFindings};

/// How deep code in strings may hold code in strings.
const DEEPEST: u32 = 4;

/// Reasons to refuse a file, and the files that it loads.
#[derive(Debug, Default)]
pub(crate) struct Inspected {
    pub(crate) spots: Vec<Spot>,
    pub(crate) files: Vec<(u32, String)>,
}

/// Looks into a file's text. Its name says which language it is in.
pub(crate) fn inspect(name: &Path, text: &str) -> Inspected {
    look(&languages(name), text, DEEPEST)
}

/// Returns the languages that it could be in: for `.js` the package decides, or the syntax. JSX is
/// JavaScript and more.
fn languages(name: &Path) -> Vec<SourceType> {
    let extension = name.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let typescript = SourceType::ts();
    match extension {
        "mjs" => vec![SourceType::mjs().with_jsx(true)],
        "cjs" => vec![SourceType::cjs().with_jsx(true)],
        "ts" | "mts" => vec![typescript],
        "cts" => vec![typescript, typescript.with_script(true)],
        "tsx" => vec![SourceType::tsx()],
        _ => vec![SourceType::mjs().with_jsx(true), SourceType::cjs().with_jsx(true)],
    }
}

fn look(languages: &[SourceType], text: &str, depth: u32) -> Inspected {
    // Node takes a byte order mark off.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let allocator = Allocator::default();
    let options = ParseOptions {
        allow_return_outside_function: true,
        preserve_parens: false,
        ..ParseOptions::default()
    };
    let (mut failure, mut whole) = (None, None);
    for language in languages {
        let parsed = Parser::new(&allocator, text, *language).with_options(options).parse();
        if parsed.panicked || !parsed.errors.is_empty() {
            failure = failure.or_else(|| Some(not_parsed(&parsed)));
            continue;
        }
        let inspected = inspect_parsed(&parsed, text, depth);
        if !is_ambiguous(text) {
            return inspected;
        }
        // Which of the languages it is in is for others to say: all that any reads in it counts.
        let whole: &mut Inspected = whole.get_or_insert_default();
        whole.spots.extend(inspected.spots);
        whole.files.extend(inspected.files);
    }
    if let Some(whole) = &mut whole {
        whole.spots.sort_by_key(|spot| spot.offset);
        whole.spots.dedup();
    }
    let failed = || Inspected { spots: failure.into_iter().collect(), files: Vec::new() };
    whole.unwrap_or_else(failed)
}

/// Returns whether a module could be read otherwise than a script: comments as in HTML are code in one,
/// and can open there what hides the code of the other (ECMA-262, B.1.1).
fn is_ambiguous(text: &str) -> bool {
    text.contains("<!--") || text.contains("-->")
}

fn not_parsed(parsed: &ParserReturn<'_>) -> Spot {
    let error = parsed.errors.first();
    let label = error.and_then(|error| error.labels.as_ref()?.first());
    let offset = label.map_or(0, |label| u32::try_from(label.offset()).unwrap_or(0));
    let why = error.map_or_else(String::new, |error| format!(": {}", error.message));
    Spot { offset, what: format!("what cannot be parsed{why}"), replacement: SAY_IT }
}

fn inspect_parsed(parsed: &ParserReturn<'_>, text: &str, depth: u32) -> Inspected {
    let semantic = SemanticBuilder::new().build(&parsed.program).semantic;
    let FileFindings { mut spots, code, files } = trace::trace(&semantic);
    for comment in &parsed.program.comments {
        let said = comment.span.source_text(text);
        if said.starts_with("<!--") || said.starts_with("-->") {
            let what = "a comment as in HTML, which is code where it is read as a module";
            spots.push(Spot::unclear(comment.span.start, what));
        }
    }
    for (offset, code) in code {
        spots.extend(inner(offset, &code, depth));
    }
    spots.sort_by_key(|spot| spot.offset);
    Inspected { spots, files }
}

/// Reasons to refuse code in a string, at its place in the file.
fn inner(offset: u32, code: &str, depth: u32) -> Vec<Spot> {
    if depth == 0 {
        return vec![Spot::unclear(offset, "code in code in code")];
    }
    let languages = [SourceType::mjs(), SourceType::cjs()];
    let found = look(&languages, code, depth - 1);
    let files = found.files.into_iter().map(|(_, file)| Spot::unclear(offset, file));
    let spots = found.spots.into_iter().chain(files);
    let inside = |spot: Spot| Spot {
        offset,
        what: format!("in code in a string: {}", spot.what),
        replacement: spot.replacement,
    };
    spots.map(inside).collect()
}
