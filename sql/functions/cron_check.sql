-- Returns what is wrong with a cron expression, as a message; null if it is valid.
create or replace function cron_check(expr text) returns text language plpgsql stable strict as $$
declare
  plan cron_plan := cron_plan_of(expr);
begin
  if plan.problem is null and cron_day(plan, current_date) is null then
    return 'it never fires: no day of the month is in one of its months';
  end if;
  return plan.problem;
end $$;
