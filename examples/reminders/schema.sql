-- The application's data, in the same database as Reeve's tables: accounts, and the reminders that were sent.
create table accounts (
  id bigint primary key,
  email text not null,
  wants_reminders boolean not null default true,
  trial_ends timestamptz,                  -- null: it pays
  last_seen timestamptz not null default clock_timestamp());

create table reminders (
  account bigint not null references accounts,
  trial_ends timestamptz not null,
  sent timestamptz not null default clock_timestamp(),
  primary key (account, trial_ends));
