-- Of the ended tasks `d` those of batches, with the bytes of their details and results if these are in callbacks (see `fits`).
      cross join lateral (
        select case when callback_tasks or callback_type is not null
          then octet_length(d.details) + coalesce(octet_length(d.result), 0) end as bytes
        from batches where id = d.batch_id offset 0) c
      where d.batch_id is not null
