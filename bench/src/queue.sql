\set token random(1, 1000000000000000)
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
LOCK TABLE pinfold.store IN SHARE ROW EXCLUSIVE MODE;
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now FROM pinfold.store \gset
SELECT task FROM pinfold.attempt WHERE token = :token::bigint::text;
SELECT id FROM pinfold.task WHERE due_at <= :now::bigint ORDER BY due_at LIMIT 4;
SELECT id AS id FROM pinfold.task WHERE status = 'queued' AND NOT EXISTS (SELECT 1 FROM pinfold.touch AS mine JOIN pinfold.touch AS other ON other.repository = mine.repository AND other.task <> mine.task JOIN pinfold.task AS busy ON busy.id = other.task AND busy.status IN ('dispatched', 'running') WHERE mine.task = task.id LIMIT 1 OFFSET 0) ORDER BY priority DESC, queued_at, added_at, id LIMIT 1 \gset
SELECT version AS version FROM pinfold.task WHERE id = :id \gset
UPDATE pinfold.task SET version = version + 1, status = 'dispatched', attempts = 1, updated_at = :now::bigint, due_at = :now::bigint + 300000 WHERE id = :id;
INSERT INTO pinfold.attempt (task, number, status, worker, token, claimed_at, lease_until, ttl) VALUES (:id, 1, 'claimed', 'bench', :token::bigint::text, :now::bigint, :now::bigint + 300000, 300000);
SELECT content FROM pinfold.spec WHERE task = :id;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
LOCK TABLE pinfold.store IN SHARE ROW EXCLUSIVE MODE;
SELECT version FROM pinfold.task WHERE id = :id;
SELECT number FROM pinfold.attempt WHERE task = :id AND number = 1;
UPDATE pinfold.task SET version = version + 1, status = 'running', updated_at = :now::bigint, due_at = :now::bigint + 300000 WHERE id = :id;
UPDATE pinfold.attempt SET status = 'running', started_at = :now::bigint WHERE task = :id AND number = 1;
COMMIT;
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
LOCK TABLE pinfold.store IN SHARE ROW EXCLUSIVE MODE;
SELECT version FROM pinfold.task WHERE id = :id;
SELECT number FROM pinfold.attempt WHERE task = :id AND number = 1;
UPDATE pinfold.task SET version = version + 1, status = 'completed', updated_at = :now::bigint, ended_at = :now::bigint, due_at = NULL, accepted = 1 WHERE id = :id;
UPDATE pinfold.attempt SET status = 'completed', ended_at = :now::bigint, output = '{}', usage = '{"inputTokens":0,"outputTokens":0}' WHERE task = :id AND number = 1;
SELECT task FROM pinfold.dependency WHERE needs = :id;
COMMIT;
