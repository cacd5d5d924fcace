#include "worker/shared.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

bool shared_init(struct shared *shared, struct reeve_error *error)
{
	pthread_mutex_init(&shared->lock, NULL);
	snprintf(shared->object, sizeof shared->object, "worker");
	shared->lease = &shared->own_lease;
	shared->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return shared->wake_fd >= 0 || error_set(error, STATUS(INTERNAL), "cannot open an eventfd: %s", strerror(errno));
}

void shared_destroy(struct shared *shared)
{
	if (shared->wake_fd >= 0)
		close(shared->wake_fd);
	pthread_mutex_destroy(&shared->lock);
}

void shared_wake(struct shared *shared)
{
	uint64_t one = 1;

	/* Write the eventfd only once for each time that control wakes up. */
	if (!atomic_exchange(&shared->woken, true))
		while (write(shared->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
			;
}

void shared_wait(struct shared *shared, int64_t until_ms)
{
	struct pollfd ready = {.fd = shared->wake_fd, .events = POLLIN};
	int64_t left_ms = until_ms == INT64_MAX ? -1 : until_ms - clock_monotonic_ms();
	uint64_t count;

	if (until_ms != INT64_MAX && left_ms < 0)
		left_ms = 0;
	if (poll(&ready, 1, left_ms > 3600 * 1000 ? 3600 * 1000 : (int)left_ms) <= 0)
		return;
	/* Reset before the state is checked: later changes wake control again. */
	if (read(shared->wake_fd, &count, sizeof count) == sizeof count)
		atomic_store(&shared->woken, false);
}
