-- The application's data: accounts with their times of sign-up, and a report for each week of an account.
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
