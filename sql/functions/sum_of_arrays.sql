-- Returns the sums of the elements of two arrays; a missing element counts as 0.
create or replace function sum_of_arrays(a bigint[], b bigint[]) returns bigint[] language sql immutable as $$
  select array(select coalesce(u.x, 0) + coalesce(u.y, 0) from unnest(a, b) with ordinality u(x, y, n) order by u.n)
$$;
