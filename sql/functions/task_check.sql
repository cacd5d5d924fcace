-- Raises an error unless the options of a task that SQL describes (submit, schedule) are valid. Returns the intervals in ms.
create or replace function task_check(type text, details text, queue text, priority int, delay interval, key text, key_ttl interval,
  max_attempts int, timeout interval, jitter int, backoff text, pipeline text, source text, traceparent text,
  out delay_ms bigint, out key_ttl_ms bigint, out timeout_ms bigint) language plpgsql stable as $$
#variable_conflict use_variable
begin
  if pipeline is not null then
    if type is not null or max_attempts is not null or timeout is not null or backoff is not null then
      raise exception using errcode = '22023', message = format('%s cannot be combined with pipeline, whose stages set it',
        case when type is not null then 'type' when max_attempts is not null then 'max_attempts'
          when timeout is not null then 'timeout' else 'backoff' end);
    elsif not exists (select from pipelines p where p.name = task_check.pipeline and p.replaced_at is null) then
      raise exception using errcode = '22023', message = format('there is no pipeline "%s"', pipeline);
    end if;
  else
    perform check_name('type', type);
  end if;
  perform check_name('queue', queue);
  perform check_name('source', source);
  if source ~ '^callback of batch [0-9]+$' then
    raise exception using errcode = '22023',
      message = 'source is reserved: it marks the callback tasks that Reeve makes; choose another';
  end if;
  if key is not null then
    perform check_name('key', key);
  end if;
  if octet_length(details) > 0 and octet_length(details) > max_details() then
    raise exception using errcode = '22001',
      message = format('details has %s bytes; at most %s are allowed', octet_length(details), max_details());
  end if;
  if priority not between -LIMIT_PRIORITY and LIMIT_PRIORITY then
    raise exception using errcode = '22023',
      message = format('priority is %s; it must be from -LIMIT_PRIORITY to LIMIT_PRIORITY', priority);
  elsif max_attempts not between 1 and LIMIT_ATTEMPTS then
    raise exception using errcode = '22023', message = format('max_attempts is %s; it must be from 1 to LIMIT_ATTEMPTS', max_attempts);
  elsif key_ttl is not null and key is null then
    raise exception using errcode = '22023', message = 'key_ttl needs a key';
  elsif jitter not between 0 and 100 then
    raise exception using errcode = '22023', message = format('jitter is %s; it must be from 0 to 100 (percent)', jitter);
  elsif jitter is not null and backoff is null then
    raise exception using errcode = '22023', message = 'jitter needs backoff';
  end if;
  delay_ms := check_interval('delay', delay, 0, LIMIT_DELAY_DAYS * 86400000::bigint);
  key_ttl_ms := check_interval('key_ttl', key_ttl, 1, LIMIT_DELAY_DAYS * 86400000::bigint);
  timeout_ms := check_interval('timeout', timeout, 1, LIMIT_TIMEOUT_DAYS * 86400000::bigint);
  -- A W3C traceparent; only later versions than 00 may go on after the flags.
  if traceparent !~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[^[:cntrl:]]*)?$'
    or octet_length(traceparent) > (case when traceparent like '00%' then 55 else LIMIT_NAME_BYTES end) then
    raise exception using errcode = '22023', message = format('traceparent is "%s"; it must be a W3C traceparent, '
      'version-traceid-parentid-flags in lower case hexadecimal digits', left(traceparent, 100));
  end if;
end $$;
