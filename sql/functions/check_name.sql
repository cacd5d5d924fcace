-- Raises an error unless a name is valid: 1 to LIMIT_NAME_BYTES bytes without control characters.
create or replace function check_name(parameter text, name text) returns void language plpgsql immutable as $$
begin
  if name is null then
    raise exception using errcode = '22004', message = parameter || ' is NULL';
  elsif name = '' then
    raise exception using errcode = '22023', message = parameter || ' is empty';
  elsif octet_length(name) > LIMIT_NAME_BYTES then
    raise exception using errcode = '22001', message = format('%s has %s bytes; at most LIMIT_NAME_BYTES are allowed', parameter, octet_length(name));
  elsif name ~ '[\u0001-\u001f\u007f-\u009f]' then
    raise exception using errcode = '22023', message = parameter || ' holds a control character';
  end if;
end $$;
