-- Returns the shard to which a task belongs, from 0, as the manager's ready_shard_of does. From 64 ids to the next 64
-- the shards alternate as if by chance: of types that are submitted in turn, each has tasks in all shards, whatever the
-- distance between their ids. It is an expression without FROM, so that PostgreSQL inlines it.
create or replace function shard_of(id bigint, shards int) returns int language sql immutable parallel safe as $$
  select ((id + (((id >> 6 & 4294967295) # (id >> 22 & 65535)) * 73244475 & 4294967295
    # (((id >> 6 & 4294967295) # (id >> 22 & 65535)) * 73244475 >> 16 & 65535))) % shards)::int
$$;
