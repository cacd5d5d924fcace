-- Enters a manager that has started. $1 its name.
insert into managers (name) values ($1) returning id
