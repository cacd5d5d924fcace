-- Admits tasks that were submitted by SQL: the first beyond an id, and those that go with it. Answers up to which id it came, null
-- at the end, how many it admitted, and which are to be ended in the same transaction, with which code and why. $1 the id,
-- $2 how many.
select walked, admitted, refused, code, reason from arrivals_admit($1::bigint, $2::int)
