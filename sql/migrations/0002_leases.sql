-- What watching over leases needs.

-- The lease that the worker was told when it registered: whoever watches goes by that, whatever his own options say. Of
-- those that registered before, or at a manager that does not write it, nobody knows: the longest that there may be.
alter table workers add column lease_ms bigint not null default 600000;

-- The incarnations that live: few, beside all that have been. Managers read their sequence numbers several times a
-- second, and a name that registers is looked for among them. It is on gone_at, not on lost, so that no statement which
-- asks for "not lost" of a worker it knows by its id is tempted to look through all of them.
create index workers_alive on workers (name) where gone_at is null;

-- What a worker holds, by the Fetches that it was given for: the open rows of one Fetch, or from one on, without a walk
-- over the dead entries of all that are closed.
drop index assignments_open;
create index assignments_open on assignments (worker_id, fetch_id) where closed_at is null;
