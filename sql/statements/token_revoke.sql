-- Ends an identity.
-- takes RevokeTokenRequest: @request_id, name, @actor
-- gives RevokeTokenResponse: id
select token_revoke($1::uuid, $2::text, $3::text) as id
