-- Subscribes to the notifications of the other managers.
listen reeve_notify
