-- The application's data: accounts, their orders, and the results of the nightly analysis.

create table accounts (
  id bigint primary key,
  name text not null,
  active boolean not null default true);

create table orders (
  account bigint not null references accounts,
  at timestamptz not null,
  amount numeric not null);

create table analytics (
  account bigint not null,
  day date not null,
  orders bigint not null,
  total numeric not null,
  primary key (account, day));
