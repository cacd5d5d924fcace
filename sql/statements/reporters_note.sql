-- Notes who reports attempts, if that is not the caller that registered their worker.
--   one element per report: $1 ids, $2 tokens, $3 callers, $4 outcomes
select reporters_note($1, $2, $3, $4)
