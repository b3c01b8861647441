-- Who signed an entry: an identity as it calls itself, its public key, and its signature of the address.
ALTER TABLE entry ADD COLUMN identity TEXT;
ALTER TABLE entry ADD COLUMN public_key TEXT;
ALTER TABLE entry ADD COLUMN signature TEXT;
