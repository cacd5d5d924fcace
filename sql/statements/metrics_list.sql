-- Metrics by category and name. $1 category or null, after $2 category and $3 name, $4 how many.
select category, name, value::text, changed, updated, source from metrics
where ($1::text is null or category = $1) and (category, name) > ($2, $3)
order by category, name limit $4
