-- Whether the details and the result of `d`, together c.bytes, are in its callback: not those of more than 1 MiB, and no more
-- than 160 MiB of a statement: jsonb holds no more than 256 MiB, and 10,000 errors and remarks are up to 80 MiB.
(c.bytes <= 1048576 and sum(c.bytes) filter (where c.bytes <= 1048576) over (order by d.id) <= 167772160)
