-- Opens a transaction.
begin
