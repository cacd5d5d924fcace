-- Changes a schedule. @change: see the function schedule_changed.
-- takes EditScheduleRequest: @request_id, schedule.name, @change, @actor
-- gives EditScheduleResponse: schedule.[schedule]
select d.* from schedule_edit($1::uuid, $2::text, $3::text::jsonb, $4::text) s cross join lateral schedule_shown(s) d
