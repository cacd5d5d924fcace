-- Creates an identity.
-- takes CreateTokenRequest: @request_id, name, @change, hash?, local_user, uid, certificate, expires_in_ms, @actor
-- gives CreateTokenResponse: id
select token_create($1::uuid, $2::text, $3::text::jsonb, decode($4::text, 'hex'), case when $5::boolean then $6::bigint end,
  $7::boolean, $8::bigint, $9::text)
