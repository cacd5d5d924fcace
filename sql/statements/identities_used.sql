-- Records when identities were last used: $1 their ids, $2 the time. Managers lock the rows in the same order.
insert into identity_uses (identity_id, last_used)
select id, $2::timestamptz from unnest($1::bigint[]) u(id) order by id
on conflict (identity_id) do update set last_used = greatest(identity_uses.last_used, excluded.last_used)
