-- What a server of the queue keeps with it: a JSON text of a kind, by a key. What is about a task goes with it.
CREATE TABLE note (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    task TEXT REFERENCES task (id) ON DELETE CASCADE,
    content TEXT NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX note_task ON note (task) WHERE task IS NOT NULL;
