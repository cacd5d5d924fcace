-- Enters a manager that has started. $1 its name, $2 whether it archives the history, $3 the longest details it takes.
insert into managers (name, archives, max_details) values ($1, $2::boolean, $3::bigint) returning id
