-- What nothing uses any more goes: routes, and definitions of pipelines that were replaced.

-- Callbacks: a try counts when it is known what came of it. takes: how often a manager has taken it for a try.
alter table callbacks add column takes int not null default 0;
update callbacks set takes = attempts where state = 'waiting';
