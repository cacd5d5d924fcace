-- Adds a manager that has started. $1 its name, $2 whether it archives the history, $3 the maximum length of details,
-- in bytes, $4 its retention in days, $5 its version.
insert into managers (name, archives, max_details, history_days, version) values ($1, $2::boolean, $3::bigint, $4::int, $5) returning id
