-- Pauses, resumes or removes a schedule, and returns it unless it is removed.
-- takes ControlScheduleRequest: @request_id, name, action, @actor
-- gives ControlScheduleResponse: schedule.[schedule]
select d.* from schedule_control($1::uuid, $2::text, $3::text, $4::text) s left join lateral schedule_shown(s) d on $3 <> 'remove'
