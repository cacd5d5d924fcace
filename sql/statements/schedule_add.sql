-- Adds a schedule. @change: see the function schedule_changed.
-- takes AddScheduleRequest: @request_id, schedule.name, @change, @actor
-- gives AddScheduleResponse: schedule.[schedule]
select d.* from schedule_add($1::uuid, $2::text, $3::text::jsonb, $4::text) s cross join lateral schedule_shown(s) d
