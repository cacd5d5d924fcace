-- Hears what the other managers say.
listen reeve_wake
