-- Parses a cron expression of five fields, or one of @hourly, @daily, …; `problem` says why it is invalid.
create or replace function cron_plan_of(expr text) returns cron_plan language plpgsql immutable as $$
declare
  plan cron_plan;
  fields text[] := regexp_split_to_array(btrim(expr, E' \t'), '[ \t]+');
  place int;
begin
  if length(expr) > 1000 then
    plan.problem := 'the expression has more than 1000 characters';
    return plan;
  elsif fields[1] like '@%' and array_length(fields, 1) = 1 then
    fields := string_to_array(case lower(fields[1])
      when '@hourly' then '0 * * * *' when '@daily' then '0 0 * * *' when '@midnight' then '0 0 * * *'
      when '@weekly' then '0 0 * * 0' when '@monthly' then '0 0 1 * *'
      when '@yearly' then '0 0 1 1 *' when '@annually' then '0 0 1 1 *' end, ' ');
    if fields is null then
      plan.problem := format('%s is not known; there are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually',
        left(expr, 50));
      return plan;
    end if;
  elsif expr is null or array_length(fields, 1) <> 5 then
    plan.problem := format('it has %s field%s; five are wanted: minute, hour, day of the month, month, day of the week',
      case when btrim(coalesce(expr, ''), E' \t') = '' then 0 else array_length(fields, 1) end,
      case when array_length(fields, 1) = 1 and fields[1] <> '' then '' else 's' end);
    return plan;
  end if;
  select wanted, problem into plan.minutes, plan.problem from cron_field(fields[1], 'minute', 0, 59, '{}');
  if plan.problem is null then
    select wanted, problem into plan.hours, plan.problem from cron_field(fields[2], 'hour', 0, 23, '{}');
  end if;
  if plan.problem is null then
    select wanted, problem into plan.days, plan.problem from cron_field(fields[3], 'day of the month', 1, 31, '{}');
  end if;
  if plan.problem is null then
    select wanted, problem into plan.months, plan.problem from cron_field(fields[4], 'month', 1, 12,
      '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}');
  end if;
  if plan.problem is null then
    select wanted, problem into plan.weekdays, plan.problem from cron_field(fields[5], 'day of the week', 0, 7,
      '{sun,mon,tue,wed,thu,fri,sat}');
  end if;
  plan.either := fields[3] not like '*%' and fields[5] not like '*%';
  return plan;
end $$;
