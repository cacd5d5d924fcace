-- What watching over leases needs.

-- The incarnations that live: few, beside all that have been. Managers read their sequence numbers several times a
-- second, and a name that registers is looked for among them. It is on gone_at, not on lost, so that no statement which
-- asks for "not lost" of a worker it knows by its id is tempted to look through all of them.
create index workers_alive on workers (name) where gone_at is null;
