#!/usr/bin/env python3
"""Prints when cron expressions fire around clock changes, computed minute by minute with Python's own time zones.

Each line has EXPRESSION, ZONE, SINCE, UNTIL and the times after SINCE up to UNTIL, separated by tabs. Times are in
seconds since 1970; the list is separated by commas and in braces, as PostgreSQL reads arrays. This program shares only
the rule with the tested code: an expression that allows every hour fires at each matching minute that passes; any other
fires once for each time of a day, when the zone's clock first shows that time or, if it is skipped, a later one.
"""
import calendar
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
DAYS = "sun mon tue wed thu fri sat".split()

# Zones, and days (in UTC) on or near which their clocks change: by an hour, by half an hour, at midnight, a minute
# after midnight, by a full day, twice a year in the middle of it, in the far future; and some without changes.
PLACES = [
    ("Europe/Berlin", "2026-03-29"), ("Europe/Berlin", "2026-10-25"),
    ("Europe/London", "2026-03-29"), ("Europe/London", "2026-10-25"),
    ("Europe/Dublin", "2027-03-28"), ("Europe/Dublin", "2027-10-31"),
    ("America/New_York", "2026-03-08"), ("America/New_York", "2026-11-01"),
    ("America/Los_Angeles", "2050-03-13"), ("America/Los_Angeles", "2050-11-06"),
    ("America/St_Johns", "2006-04-02"), ("America/St_Johns", "2006-10-29"),
    ("America/Sao_Paulo", "2018-11-04"), ("America/Sao_Paulo", "2018-02-18"),
    ("America/Havana", "2026-03-08"), ("America/Havana", "2026-11-01"),
    ("Asia/Beirut", "2024-03-31"), ("Asia/Beirut", "2024-10-27"),
    ("Asia/Tehran", "2021-03-21"), ("Asia/Tehran", "2021-09-21"),
    ("Australia/Lord_Howe", "2026-10-03"), ("Australia/Lord_Howe", "2026-04-04"),
    ("Australia/Sydney", "2026-10-03"), ("Australia/Sydney", "2026-04-04"),
    ("Pacific/Apia", "2011-12-30"), ("Pacific/Apia", "2011-09-24"),
    ("Pacific/Chatham", "2026-09-26"), ("Pacific/Chatham", "2026-04-04"),
    ("Africa/Casablanca", "2026-02-15"), ("Africa/Casablanca", "2026-03-22"),
    ("Antarctica/Troll", "2026-03-29"), ("Antarctica/Troll", "2026-10-25"),
    ("Asia/Pyongyang", "2018-05-04"), ("America/Caracas", "2016-05-01"),
    ("Asia/Kathmandu", "2026-02-28"), ("UTC", "2024-02-29"), ("Asia/Tokyo", "2026-12-31"),
]

EXPRESSIONS = [
    "0 2 * * *", "30 2 * * *", "30 1 * * *", "15 0 * * *", "0 0 * * *", "59 23 * * *", "5 3 * * *",
    "*/20 1-3 * * *", "*/15 0,23 * * *", "0 */2 * * *", "10,40 2 * * sun", "@daily", "@weekly",
    "0 * * * *", "*/24 * * * *", "30 0-23 * * *", "13 */1 * * sat,sun", "@hourly",
    "0 12 1,15 * *", "0 12 13 * fri", "*/30 * 30 12 *", "0 10 30 12 *", "17 * 25-31/2 mar,oct *", "0 1 */2 * 1-5",
    "45 */6 * jan-jun 6-7",
]


def values(field, low, high, names=()):
    """Returns the set of numbers that a field allows."""
    taken = set()
    for part in field.lower().split(","):
        span, _, step = part.partition("/")
        if span == "*":
            first, last = low, high
        else:
            ends = [names.index(end) + low if end in names else int(end) for end in span.split("-")]
            first, last = ends[0], ends[-1]
        taken.update(range(first, last + 1, int(step or 1)))
    return taken


class Expression:
    def __init__(self, text):
        text = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0"}.get(text, text)
        minute, hour, day, month, weekday = text.split()
        self.minutes, self.hours = values(minute, 0, 59), values(hour, 0, 23)
        self.days, self.months = values(day, 1, 31), values(month, 1, 12, MONTHS)
        self.weekdays = {n % 7 for n in values(weekday, 0, 6, DAYS) if n <= 7}
        self.either = day[0] != "*" and weekday[0] != "*"

    def fits(self, wall):
        if wall.minute not in self.minutes or wall.hour not in self.hours or wall.month not in self.months:
            return False
        day, weekday = wall.day in self.days, (wall.weekday() + 1) % 7 in self.weekdays
        return day or weekday if self.either else day and weekday


def fires(expression, walls, since):
    """Returns the times after `since` at which the expression fires. `walls` has each minute that passes, from long
    before `since` on, as (moment, time that the clock shows)."""
    if len(expression.hours) == 24:
        return [moment for moment, wall in walls if moment > since and expression.fits(wall)]
    times = []
    planned = walls[0][1]  # every time of the day in turn, from the first minute on
    for moment, wall in walls:
        due = False
        while planned <= wall:
            due |= expression.fits(planned)
            planned += timedelta(minutes=1)
        if due and moment > since:
            times.append(moment)
    return times


def main():
    for zone, day in PLACES:
        middle = calendar.timegm(datetime.strptime(day, "%Y-%m-%d").timetuple()) + 43200
        since, until = middle - 30 * 3600, middle + 30 * 3600
        walls = []
        for moment in range(since - 48 * 3600, until + 1, 60):
            shown = datetime.fromtimestamp(moment, timezone.utc).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
            walls.append((moment, shown))
        for text in EXPRESSIONS:
            times = ",".join(str(moment) for moment in fires(Expression(text), walls, since))
            print(text, zone, since, until, "{" + times + "}", sep="\t")


main()
