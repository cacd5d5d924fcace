-- A clock that is set back: managers tell each other how far ahead it was. clock_estimate: the manager's estimate of the
-- time; clock_ahead_until: the latest time that the clock had shown before it was set back, until it shows that time
-- again; clock_set_back: what it showed just after; clock_set_back_xid: whatever was written before has a smaller number.
alter table managers
  add column clock_estimate timestamptz,
  add column clock_ahead_until timestamptz,
  add column clock_set_back timestamptz,
  add column clock_set_back_xid xid8;
