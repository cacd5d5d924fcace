-- Returns the first time after `after` at which a cron expression fires, by the clocks of a time zone; null: there is
-- none. Raises RV400 if the expression is invalid.
create or replace function cron_next(expr text, zone text, after timestamptz) returns timestamptz language plpgsql stable as $$
declare
  plan cron_plan := cron_plan_of(expr);
begin
  if plan.problem is not null then
    raise exception using errcode = 'RV400', message = format('cron expression "%s": %s', expr, plan.problem);
  end if;
  return cron_after(plan, zone, after);
end $$;
