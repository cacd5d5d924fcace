-- Returns the session's role if it is not a member of the role that owns the schema; null: it is. For functions that run
-- with their owner's rights: the sources of such a role's tasks begin with its name.
create or replace function application_role() returns text language sql stable as $$
  select case when not pg_has_role(session_user, current_user, 'member') then session_user::text end
$$;
