-- Raises RV429 if there are more than LIMIT_METRICS metrics of applications, after `made` of them were created.
create or replace function metrics_limit(made bigint) returns void language plpgsql as $$
begin
  if made > 0 then
    perform from locks where name = 'metrics' for no key update; -- counts what others have created once it is committed
    if (select count(*) from metrics where manager_id is null) > LIMIT_METRICS then
      raise exception using errcode = 'RV429',
        message = 'there are LIMIT_METRICS metrics already, the maximum; no further names are accepted';
    end if;
  end if;
end $$;
