-- Advances a batch as far as possible. $1 its id.
select steps, name, queue, submitted, completed, failed from batch_step($1)
