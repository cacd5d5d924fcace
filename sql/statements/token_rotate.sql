-- Replaces the secret of an access token.
-- takes RotateTokenRequest: @request_id, name, hash, grace_ms, @actor
-- gives RotateTokenResponse: id, old_secret_until_us
select id, old_until from token_rotate($1::uuid, $2::text, decode($3::text, 'hex'), $4::bigint, $5::text)
