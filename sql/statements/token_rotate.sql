-- Replaces the secret of an access token.
-- takes RotateTokenRequest: @request_id, name, hash, grace_ms, expires_in_ms, @actor
-- gives RotateTokenResponse: id, old_secret_until_us, expires_us
select id, old_until, expires from token_rotate($1::uuid, $2::text, decode($3::text, 'hex'), $4::bigint, $5::bigint, $6::text)
