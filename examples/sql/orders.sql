-- An order and its task in one transaction. Run `psql -f examples/sql/orders.sql` in a database that Reeve shares, as a
-- role with the grants in docs/sql.md that may create a table. A handler for the type `mail` does the task.
\set ON_ERROR_STOP on
create table if not exists orders (id bigint generated always as identity primary key, email text not null);

begin;
insert into orders (email) values ('ann@example.org') returning id as order_id \gset
select reeve.submit('mail', json_build_object('to', email, 'order', id)::text, queue => 'post', key => 'order-' || id) as task_id
from orders where id = :order_id \gset
commit;
\echo order :order_id has task :task_id

-- After this rollback, neither the order nor the task exists.
begin;
insert into orders (email) values ('bob@example.org') returning id as order_id \gset
select reeve.submit('mail', json_build_object('to', email, 'order', id)::text, queue => 'post', key => 'order-' || id) as task_id
from orders where id = :order_id \gset
rollback;
