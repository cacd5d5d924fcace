-- What watching over leases needs.

-- The incarnations that live: few, beside all that have been. Managers read their sequence numbers several times a
-- second, and a name that registers is looked for among them.
create index workers_alive on workers (name) where not lost;
