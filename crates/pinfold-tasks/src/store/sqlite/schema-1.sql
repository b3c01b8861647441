-- Times are milliseconds since 1970. Rows that change often are short: what a task asks for is in a table of its own.
CREATE TABLE task (
    id TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    title TEXT NOT NULL,
    status TEXT NOT NULL,
    priority INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    allowance INTEGER NOT NULL,
    losses INTEGER NOT NULL,
    waits_for INTEGER NOT NULL,
    dispatch_timeout INTEGER NOT NULL,
    running_timeout INTEGER NOT NULL,
    added_at INTEGER NOT NULL,
    queued_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ended_at INTEGER,
    expires_at INTEGER,
    due_at INTEGER,
    accepted INTEGER,
    failure TEXT
) STRICT, WITHOUT ROWID;

-- Of 10 000 queued tasks the next one is the first entry.
CREATE INDEX task_queued ON task (priority DESC, queued_at, added_at, id) WHERE status = 'queued';
CREATE INDEX task_due ON task (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX task_added ON task (added_at DESC, id DESC);

CREATE TABLE spec (
    task TEXT PRIMARY KEY REFERENCES task (id) ON DELETE CASCADE,
    content TEXT NOT NULL
) STRICT;

CREATE TABLE dependency (
    task TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE,
    needs TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE,
    PRIMARY KEY (task, needs)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependency_needs ON dependency (needs);

CREATE TABLE attempt (
    task TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    status TEXT NOT NULL,
    worker TEXT NOT NULL,
    token TEXT NOT NULL UNIQUE,
    claimed_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    lease_until INTEGER NOT NULL,
    ttl INTEGER NOT NULL,
    output TEXT,
    usage TEXT,
    failure TEXT,
    PRIMARY KEY (task, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE message (
    task TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (task, attempt, number)
) STRICT, WITHOUT ROWID;
