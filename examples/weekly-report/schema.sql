-- What the application has: accounts, with when each signed up; and what it makes: a report for each week of theirs.
create table accounts (
  id bigint primary key,
  email text not null,
  signed_up timestamptz not null default clock_timestamp(),
  left_at timestamptz);

create table reports (
  account bigint not null,
  week int not null,                       -- the first is 1
  text text not null,
  made timestamptz not null default clock_timestamp(),
  primary key (account, week));
