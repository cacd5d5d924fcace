-- Returns what an identity may do, for the audit: "submitter; queues mail; expires 2027-01-14T08:00:00.000000Z".
create or replace function identity_text(rights jsonb, of_uid bigint, by_certificate boolean, expires timestamptz) returns text
language sql stable as $$
  select concat_ws('; ',
    nullif(array_to_string(array(select jsonb_array_elements_text(rights -> 'roles')), ', '), ''),
    (select string_agg(x.label || ' ' || array_to_string(array(select jsonb_array_elements_text(rights -> x.field)), ', '), '; ' order by x.place)
     from (values (1, 'queues', 'queues'), (2, 'types', 'types'), (3, 'metrics', 'metrics'), (4, 'callback_hosts', 'callback hosts'))
       x(place, field, label)
     where jsonb_array_length(rights -> x.field) > 0),
    'user ' || of_uid,
    case when by_certificate then 'certificate' end,
    'expires ' || time_text(nullif(expires, 'infinity')))
$$;
