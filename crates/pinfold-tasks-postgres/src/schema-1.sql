-- Times are milliseconds since 1970. Texts are compared byte by byte (COLLATE "C"), as SQLite does it.
CREATE TABLE pinfold.store (
    -- There is one row.
    only_row BOOLEAN PRIMARY KEY DEFAULT true CHECK (only_row),
    format BIGINT NOT NULL
);
INSERT INTO pinfold.store (format) VALUES (0);

-- Rows that change often are short: what a task asks for is in a table of its own. A tenth of each page stays free, so that
-- most changes of a row stay on its page.
CREATE TABLE pinfold.task (
    id TEXT COLLATE "C" PRIMARY KEY,
    version BIGINT NOT NULL,
    title TEXT NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    priority BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    max_attempts BIGINT NOT NULL,
    allowance BIGINT NOT NULL,
    losses BIGINT NOT NULL,
    waits_for BIGINT NOT NULL,
    dispatch_timeout BIGINT NOT NULL,
    running_timeout BIGINT NOT NULL,
    added_at BIGINT NOT NULL,
    queued_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT,
    expires_at BIGINT,
    due_at BIGINT,
    accepted BIGINT,
    failure TEXT
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02);

-- Of 10 000 queued tasks the next one is the first entry.
CREATE INDEX task_queued ON pinfold.task (priority DESC, queued_at, added_at, id)
    WHERE status = 'queued';
CREATE INDEX task_due ON pinfold.task (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX task_added ON pinfold.task (added_at DESC, id DESC);

CREATE TABLE pinfold.spec (
    task TEXT COLLATE "C" PRIMARY KEY REFERENCES pinfold.task (id) ON DELETE CASCADE,
    content TEXT NOT NULL
);

CREATE TABLE pinfold.dependency (
    task TEXT COLLATE "C" NOT NULL REFERENCES pinfold.task (id) ON DELETE CASCADE,
    needs TEXT COLLATE "C" NOT NULL REFERENCES pinfold.task (id) ON DELETE CASCADE,
    PRIMARY KEY (task, needs)
);
CREATE INDEX dependency_needs ON pinfold.dependency (needs);

-- What tasks change in their repositories: texts that all these paths begin with.
CREATE TABLE pinfold.touch (
    task TEXT COLLATE "C" NOT NULL REFERENCES pinfold.task (id) ON DELETE CASCADE,
    repository TEXT COLLATE "C" NOT NULL,
    beginning TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (task, repository, beginning)
);
CREATE INDEX touch_repository ON pinfold.touch (repository);

CREATE TABLE pinfold.attempt (
    task TEXT COLLATE "C" NOT NULL REFERENCES pinfold.task (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    worker TEXT NOT NULL,
    token TEXT COLLATE "C" NOT NULL UNIQUE,
    claimed_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT,
    lease_until BIGINT NOT NULL,
    ttl BIGINT NOT NULL,
    output TEXT,
    usage TEXT,
    failure TEXT,
    PRIMARY KEY (task, number)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE pinfold.message (
    task TEXT COLLATE "C" NOT NULL REFERENCES pinfold.task (id) ON DELETE CASCADE,
    attempt BIGINT NOT NULL,
    number BIGINT NOT NULL,
    at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL,
    PRIMARY KEY (task, attempt, number)
);

-- What a server of the queue keeps with it: a JSON text of a kind, by a key. What is about a task goes with it.
CREATE TABLE pinfold.note (
    kind TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    task TEXT COLLATE "C" REFERENCES pinfold.task (id) ON DELETE CASCADE,
    content TEXT NOT NULL,
    PRIMARY KEY (kind, key)
);
CREATE INDEX note_task ON pinfold.note (task) WHERE task IS NOT NULL;
