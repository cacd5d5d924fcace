-- After a submit that met taken keys: submits those with a version. A newer version runs its task again. $1 their rows
-- as JSON.
select n, id, restarted, route_id, priority, version, run_at from submit_newer($1::text[]::jsonb[]) order by n
