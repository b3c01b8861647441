//! Where a pack comes from: its entries, the packs that it takes the place of, and what was made of it.

use pinfold_content::{Clock as _, Object, SystemClock, Uuid, Value, times};

use crate::MemoryError;
use crate::entry::Entry;
use crate::pack::{CUSTOM, Pack, PackEntry};
use crate::render::RenderedPack;
use crate::store::Diary;

/// Packs that one pack takes the place of, one after another, at most.
pub const MOST_DEPTH: u32 = 10;
/// Renderings of a pack at most.
const MOST_RENDERINGS: u32 = 100;
/// Characters of an entry's label.
const LONGEST_LABEL: usize = 42;

/// The nodes and edges that were found.
#[derive(Default)]
struct Graph {
    nodes: Vec<(String, Value)>,
    edges: Vec<(String, Value)>,
}

impl Diary {
    /// Returns the graph of a pack, with so many packs that it takes the place of.
    ///
    /// # Errors
    /// Returns an error if the pack is not in this diary, or for a depth that is too large.
    pub fn provenance(&self, root: Uuid, depth: u32) -> Result<Value, MemoryError> {
        if depth > MOST_DEPTH {
            return Err(MemoryError::invalid("/depth", "must be from 0 to 10"));
        }
        let mut graph = Graph::default();
        let mut next = Some(self.pack(root)?);
        let mut left = depth;
        while let Some(pack) = next {
            self.add(&pack, &mut graph)?;
            let older = pack.supersedes.filter(|_| left > 0).map(|id| self.pack(id));
            next = match older.transpose() {
                // It has ended.
                Err(MemoryError::NoPack(_)) => None,
                older => older?,
            };
            if let Some(older) = &next {
                let (from, to) = (node_id("pack", pack.id), node_id("pack", older.id));
                graph.edge(&from, &to, "supersedes", None, None);
            }
            left = left.saturating_sub(1);
        }
        Ok(graph.finish(root, depth))
    }

    fn add(&self, pack: &Pack, graph: &mut Graph) -> Result<(), MemoryError> {
        let from = node_id("pack", pack.id);
        graph.pack(pack);
        for placed in &pack.entries {
            let Some(entry) = &placed.entry else { continue };
            graph.entry(pack, entry);
            graph.includes(&from, placed);
        }
        for rendered in self.renderings(Some(pack.id), None, MOST_RENDERINGS, 0)?.0 {
            let to = node_id("rendered_pack", rendered.id);
            graph.rendered(&rendered);
            graph.edge(&from, &to, "rendered_from", Some("rendered from".to_owned()), None);
        }
        Ok(())
    }
}

fn node_id(kind: &str, id: Uuid) -> String {
    format!("{kind}:{id}")
}

fn first_digits(id: Uuid) -> String {
    id.to_string()[..8].to_owned()
}

impl Graph {
    fn node(&mut self, kind: &str, id: Uuid, label: String, cid: &str, meta: Value) {
        let id = node_id(kind, id);
        let value = Value::object([
            ("id", id.as_str().into()),
            ("kind", kind.into()),
            ("label", label.into()),
            ("cid", cid.into()),
            ("meta", meta),
        ]);
        self.nodes.push((id, value));
    }

    fn edge(
        &mut self,
        from: &str,
        to: &str,
        kind: &str,
        label: Option<String>,
        meta: Option<Object>,
    ) {
        let id = format!("{from}->{to}:{kind}");
        let mut edge = Object::default()
            .with("id", id.as_str())
            .with("from", from)
            .with("to", to)
            .with("kind", kind);
        if let Some(label) = label {
            edge = edge.with("label", label);
        }
        if let Some(meta) = meta {
            edge = edge.with("meta", meta);
        }
        self.edges.push((id, Value::Object(edge)));
    }

    fn pack(&mut self, pack: &Pack) {
        let label = format!("{CUSTOM} pack {}", first_digits(pack.id));
        let meta = Value::object([
            ("packId", pack.id.to_string().into()),
            ("diaryId", pack.diary.to_string().into()),
            ("packCid", pack.cid.as_str().into()),
            ("packType", CUSTOM.into()),
            ("packCodec", "dag-cbor".into()),
            ("pinned", pack.pinned.into()),
            ("createdAt", times::write(pack.created_at).into()),
            ("expiresAt", times::value(pack.expires_at)),
            ("supersedesPackId", pack.supersedes.map(|id| id.to_string()).into()),
        ]);
        self.node("pack", pack.id, label, pack.cid.as_str(), meta);
    }

    fn entry(&mut self, pack: &Pack, entry: &Entry) {
        let tags: Value = entry.tags.iter().map(String::as_str).collect();
        let meta = Value::object([
            ("entryId", entry.id.to_string().into()),
            ("diaryId", pack.diary.to_string().into()),
            ("entryType", entry.entry_type.word().into()),
            ("contentHash", entry.cid.as_str().into()),
            ("createdAt", times::write(entry.created_at).into()),
            ("updatedAt", times::write(entry.updated_at).into()),
            ("signed", entry.signature.is_some().into()),
            ("title", entry.title.as_deref().into()),
            ("tags", tags),
        ]);
        self.node("entry", entry.id, label_of(entry), entry.cid.as_str(), meta);
    }

    fn includes(&mut self, from: &str, placed: &PackEntry) {
        let packed = &placed.packed;
        let meta = Object::default()
            .with("compressionLevel", packed.level.word())
            .with("entryCidSnapshot", packed.cid.as_str())
            .with("originalTokens", packed.original_tokens)
            .with("packedTokens", packed.packed_tokens)
            .with("rank", u64::from(packed.rank));
        let to = node_id("entry", packed.entry);
        self.edge(from, &to, "includes", Some(format!("rank {}", packed.rank)), Some(meta));
    }

    fn rendered(&mut self, rendered: &RenderedPack) {
        let label = format!("{} {}", rendered.method, first_digits(rendered.id));
        let meta = Value::object([
            ("renderedPackId", rendered.id.to_string().into()),
            ("sourcePackId", rendered.pack.to_string().into()),
            ("diaryId", rendered.diary.to_string().into()),
            ("packCid", rendered.cid.as_str().into()),
            ("renderMethod", rendered.method.as_str().into()),
            ("totalTokens", rendered.tokens.into()),
            ("pinned", rendered.pinned.into()),
            ("createdAt", times::write(rendered.created_at).into()),
            ("expiresAt", times::value(rendered.expires_at)),
        ]);
        self.node("rendered_pack", rendered.id, label, rendered.cid.as_str(), meta);
    }

    /// Returns the graph. A node that two packs have is there once.
    fn finish(mut self, root: Uuid, depth: u32) -> Value {
        let list = |all: &mut Vec<(String, Value)>| {
            all.sort_by(|(one, _), (other, _)| one.cmp(other));
            all.dedup_by(|(one, _), (other, _)| one == other);
            Value::Array(all.drain(..).map(|(_, value)| value).collect())
        };
        Value::object([
            (
                "metadata",
                Value::object([
                    ("format", "moltnet.provenance-graph/v1".into()),
                    ("generatedAt", times::write(SystemClock.now()).into()),
                    ("rootNodeId", node_id("pack", root).into()),
                    ("rootPackId", root.to_string().into()),
                    ("depth", depth.into()),
                ]),
            ),
            ("nodes", list(&mut self.nodes)),
            ("edges", list(&mut self.edges)),
        ])
    }
}

/// Returns a title, or the beginning of the text, as JavaScript counts characters.
fn label_of(entry: &Entry) -> String {
    let title = entry.title.as_deref().filter(|title| !title.is_empty());
    let text = title.unwrap_or(&entry.content);
    let units: Vec<u16> = text.encode_utf16().collect();
    if title.is_some() || units.len() <= LONGEST_LABEL {
        return text.to_owned();
    }
    format!("{}...", String::from_utf16_lossy(&units[..LONGEST_LABEL - 3]))
}
