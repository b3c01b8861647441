-- One row.
CREATE TABLE diary (id TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;

CREATE TABLE entry (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    title TEXT,
    content TEXT NOT NULL,
    tags TEXT NOT NULL,
    importance INTEGER NOT NULL,
    type TEXT NOT NULL,
    cid TEXT NOT NULL,
    threats TEXT NOT NULL,
    access_count INTEGER NOT NULL,
    last_accessed_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX entry_by_time ON entry (created_at, number);
CREATE INDEX entry_by_cid ON entry (cid);

CREATE TABLE tag (number INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE entry_tag (
    tag INTEGER NOT NULL REFERENCES tag,
    entry INTEGER NOT NULL REFERENCES entry ON DELETE CASCADE,
    PRIMARY KEY (tag, entry)
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_tag_by_entry ON entry_tag (entry);

-- `entry` takes the place of `older`.
CREATE TABLE supersedes (
    older INTEGER NOT NULL REFERENCES entry ON DELETE CASCADE,
    entry INTEGER NOT NULL REFERENCES entry ON DELETE CASCADE,
    PRIMARY KEY (older, entry)
) STRICT, WITHOUT ROWID;
CREATE INDEX supersedes_by_entry ON supersedes (entry);

-- The words of entries, whose texts are in `entry`, and marks, which begin with U+E000: `e0` for every entry, `k1` for a
-- type, `t1` for a tag by its number.
CREATE VIRTUAL TABLE entry_text USING fts5 (
    words, content = '', contentless_delete = 1, tokenize = 'porter unicode61'
);

CREATE TABLE pack (
    id TEXT NOT NULL PRIMARY KEY,
    cid TEXT NOT NULL UNIQUE,
    params TEXT NOT NULL,
    supersedes TEXT,
    pinned INTEGER NOT NULL,
    expires_at INTEGER,
    created_at INTEGER NOT NULL
) STRICT;
-- Entries may be removed later, so they are named by their ids.
CREATE TABLE pack_entry (
    pack TEXT NOT NULL REFERENCES pack ON DELETE CASCADE,
    rank INTEGER NOT NULL,
    id TEXT NOT NULL,
    entry TEXT NOT NULL,
    cid TEXT NOT NULL,
    level TEXT NOT NULL,
    original_tokens INTEGER NOT NULL,
    packed_tokens INTEGER NOT NULL,
    PRIMARY KEY (pack, rank)
) STRICT, WITHOUT ROWID;

-- A pinned rendering outlives its pack.
CREATE TABLE rendered_pack (
    id TEXT NOT NULL PRIMARY KEY,
    cid TEXT NOT NULL UNIQUE,
    pack TEXT NOT NULL,
    pack_cid TEXT NOT NULL,
    method TEXT NOT NULL,
    content TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    pinned INTEGER NOT NULL,
    expires_at INTEGER,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX rendered_pack_by_pack ON rendered_pack (pack, created_at);
