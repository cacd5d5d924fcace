-- Records when identities were last used: $1 their ids, in order, $2 the times.
insert into identity_uses (identity_id, last_used)
select id, used from unnest($1::bigint[], $2::timestamptz[]) u(id, used)
on conflict (identity_id) do update set last_used = greatest(identity_uses.last_used, excluded.last_used)
