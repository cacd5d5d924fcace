-- Who may call. A row is an access token, a local user or a certificate; its name says in the audit who did something.
create table identities (
  id bigint generated always as identity primary key,
  name text not null,
  -- As Rights in token.proto: {"roles": ["worker"], "queues": ["mail"], …}
  rights jsonb not null,
  hash bytea,                              -- of an access token: the SHA-256 of its secret
  uid bigint,                              -- of a local user: its number
  certificate boolean not null default false, -- of callers whose certificate has the URI reeve://NAME
  created timestamptz not null default clock_timestamp(),
  created_by text not null default '',
  expires timestamptz not null default 'infinity',
  valid_ms bigint,                         -- how long a new secret is valid; null: until it is revoked
  revoked timestamptz,
  constraint identities_kind check (num_nonnulls(hash, uid, nullif(certificate, false)) = 1)
);
create unique index identities_name on identities (name) where revoked is null;
create unique index identities_uid on identities (uid) where revoked is null;

-- After rotations: the secrets before the current one that are still valid.
create table old_secrets (
  identity_id bigint not null,
  hash bytea not null,                     -- the SHA-256
  valid_until timestamptz not null,
  primary key (identity_id, hash)
);

-- When identities were last used, up to a minute before. Not in their rows, because managers reload those that change.
create table identity_uses (
  identity_id bigint primary key,
  last_used timestamptz not null
) with (fillfactor = 50);

-- The audit of identities.
create table identity_events (
  id bigint generated always as identity primary key,
  identity text not null,                  -- its name
  at timestamptz not null default clock_timestamp(),
  event text not null,                     -- token_created, token_rotated, token_revoked
  actor text not null default '',
  note text not null default '');
create index identity_events_at on identity_events (at);

-- The key that signs the access tokens of attempts (common/credential.h).
create table credential_key (
  id int primary key check (id = 1),
  key bytea not null);
insert into credential_key values (1, sha256(convert_to(concat(gen_random_uuid(), gen_random_uuid(), gen_random_uuid()), 'UTF8')));
