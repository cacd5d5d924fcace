-- Returns the incarnation under which this session fetches tasks: that of a pull client with this name, which is registered when
-- the session first gets a task.
create or replace function sql_client(by text) returns bigint language plpgsql as $$
declare
  known constant text := current_setting('reeve.sql_client', true);
  mine bigint;
begin
  select w.id into mine from workers w
  where w.id = case when known ~ '^[0-9]{1,18}$' then known::bigint end
    and w.manual and not w.lost and w.name = by and w.pid = pg_backend_pid();
  if mine is null then
    mine := (select worker_register(array[by], array[coalesce(host(inet_client_addr()), 'local')], array[pg_backend_pid()], array[''],
      array[1], array[0], array[0], array[0::bigint], array[true], '{}', '{}', 600000, null,
      array[session_user::text]));
    perform set_config('reeve.sql_client', mine::text, false);
  end if;
  return mine;
end $$;
