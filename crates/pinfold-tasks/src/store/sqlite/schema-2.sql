-- What tasks change in their repositories: texts that all these paths begin with.
CREATE TABLE touch (
    task TEXT NOT NULL REFERENCES task (id) ON DELETE CASCADE,
    repository TEXT NOT NULL,
    beginning TEXT NOT NULL,
    PRIMARY KEY (task, repository, beginning)
) STRICT, WITHOUT ROWID;
CREATE INDEX touch_repository ON touch (repository);
