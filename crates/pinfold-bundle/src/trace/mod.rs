//! Follows what can lead to a process through a file: from where it comes from, by names that it is
//! given, to where it is used.

mod calls;
mod flow;
mod kind;
mod sources;

use std::collections::HashSet;

use oxc_ast::ast::Expression;
use oxc_semantic::{NodeId, Semantic, SymbolId};
use oxc_span::GetSpan as _;

use self::kind::Kind;
use crate::api::{self, Api};
use crate::finding::Spot;
use crate::text::{self, Text};

/// What a file says.
#[derive(Debug, Default)]
pub(crate) struct FileFindings {
    /// Reasons to refuse it.
    pub(crate) spots: Vec<Spot>,
    /// Code in strings: where it stands, and what it is.
    pub(crate) code: Vec<(u32, String)>,
    /// Files that it loads, relative to it.
    pub(crate) files: Vec<(u32, String)>,
}

/// Looks through a file that was parsed.
pub(crate) fn trace(semantic: &Semantic<'_>) -> FileFindings {
    let mut trace = Trace {
        semantic,
        findings: FileFindings::default(),
        words: Vec::new(),
        followed: HashSet::new(),
        bound: HashSet::new(),
        waiting: Vec::new(),
    };
    trace.find_sources();
    while let Some((node, kind)) = trace.waiting.pop() {
        trace.flow(node, kind);
    }
    let (mut findings, words) = (trace.findings, trace.words);
    // A known spot says it better: the sort keeps the order of spots in one place.
    findings.spots.extend(words);
    findings.spots.sort_by_key(|spot| spot.offset);
    findings.spots.dedup_by_key(|spot| spot.offset);
    findings
}

struct Trace<'s, 'a> {
    semantic: &'s Semantic<'a>,
    findings: FileFindings,
    /// Calls, of whatever it is, with a word that means an interface.
    words: Vec<Spot>,
    followed: HashSet<(NodeId, Kind)>,
    bound: HashSet<(SymbolId, Kind)>,
    /// Values whose use is still to be looked at.
    waiting: Vec<(NodeId, Kind)>,
}

impl Trace<'_, '_> {
    /// Notes that the value of this node is of this kind.
    fn follow(&mut self, node: NodeId, kind: Kind) {
        if self.followed.insert((node, kind)) {
            self.waiting.push((node, kind));
        }
    }

    /// Notes that every use of a declared name is of this kind.
    fn bind(&mut self, symbol: SymbolId, kind: Kind) {
        if !self.bound.insert((symbol, kind)) {
            return;
        }
        let scoping = self.semantic.scoping();
        let references = scoping.get_resolved_references(symbol).filter(|one| one.is_read());
        let nodes: Vec<NodeId> = references.map(|reference| reference.node_id()).collect();
        for node in nodes {
            self.follow(node, kind);
        }
    }

    fn values(&self, expression: &Expression<'_>) -> Vec<Text> {
        text::values(self.semantic, expression)
    }

    /// Handles a module that is loaded by this name.
    fn load(&mut self, name: &Expression<'_>, how: &str) {
        let offset = name.span().start;
        for value in self.values(name) {
            self.load_value(offset, value, how);
        }
    }

    fn load_value(&mut self, offset: u32, value: Text, how: &str) {
        match value {
            Text::Whole(name) => self.load_named(offset, &name, how),
            Text::Begins(prefix) if Api::may_begin(&api::plain(&prefix).to_lowercase()) => {
                let what = format!("{how} of a module whose name is made at run time");
                self.findings.spots.push(Spot::unclear(offset, what));
            }
            Text::Begins(_) => {}
        }
    }

    fn load_named(&mut self, offset: u32, name: &str, how: &str) {
        let name = api::plain(name);
        if let Some(api) = Api::of_specifier(&name) {
            self.findings.spots.push(Spot::api(offset, api, how));
        } else if let Some(data) = name.strip_prefix("data:") {
            match code_of_data(data) {
                Some(code) => self.findings.code.push((offset, code)),
                None => self.findings.spots.push(Spot::unclear(offset, "a data: URL")),
            }
        } else if name.starts_with(['.', '/']) || name.starts_with("file:") {
            self.findings.files.push((offset, name));
        }
    }
}

/// Returns the code in a `data:` URL (RFC 2397) whose scheme was taken off; none of what is no
/// JavaScript.
fn code_of_data(data: &str) -> Option<String> {
    use base64::Engine as _;
    let (head, body) = data.split_once(',')?;
    let bytes: Vec<u8> = percent_encoding::percent_decode_str(body).collect();
    let bytes = if head.to_ascii_lowercase().ends_with(";base64") {
        base64::engine::general_purpose::STANDARD.decode(bytes).ok()?
    } else {
        bytes
    };
    String::from_utf8(bytes).ok()
}
