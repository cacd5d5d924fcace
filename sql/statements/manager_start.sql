-- Enters a manager that has started. $1 its name, $2 whether it archives the history.
insert into managers (name, archives) values ($1, $2::boolean) returning id
