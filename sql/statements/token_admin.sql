-- Creates the admin's access token, or replaces it. $1 the hash of its secret in hexadecimal digits, $2 whether only if no
-- admin has one
select token_admin(decode($1::text, 'hex'), $2::boolean)
