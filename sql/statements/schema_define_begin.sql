-- Lets functions call each other, whichever is created first.
set local check_function_bodies = off
