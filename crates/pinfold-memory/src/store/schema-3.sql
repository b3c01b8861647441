-- What was signed with the address; without one, the signature is of the second format.
ALTER TABLE entry ADD COLUMN nonce TEXT;
CREATE INDEX entry_by_signature ON entry (signature) WHERE signature IS NOT NULL;
