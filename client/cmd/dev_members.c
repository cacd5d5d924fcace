/* Start, restart and end of the processes of `reeve dev`. */
#include "client/cmd/dev_members.h"

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "manager/embedded/child.h"

#include <signal.h>
#include <sys/wait.h>

enum {
	PAUSE_MS = 500, /* the delay before a member that ended soon is restarted; doubled each time */
	LONGEST_PAUSE_MS = 30000,
	SOUND_MS = 60000, /* if a member ran this long, its start was not the reason for its end */
};

bool member_start(struct member *member)
{
	struct reeve_error error = {0};
	struct child_spec spec = {
	    .argv = member->argv,
	    .input = -1,
	    .output = -1,
	    .death_signal = SIGKILL,
	};
	pid_t pid = child_start(&spec, &error);

	member->pid = pid > 0 ? pid : 0;
	member->started_ms = clock_monotonic_ms();
	if (pid < 0)
		log_error(member->name, "%s", error.message);
	return pid > 0;
}

bool member_ended(struct member *member)
{
	if (member->pid > 0 && child_wait(member->pid, 0, -1, &member->status))
		member->pid = 0;
	return member->pid == 0;
}

static bool is_hopeless(const struct member *member)
{
	int code = WIFEXITED(member->status) ? WEXITSTATUS(member->status) : EXIT_OK;

	return code == EXIT_USAGE || code == EXIT_UNREACHABLE || code == EXIT_REFUSED;
}

int members_hopeless(const struct member *members, int64_t count)
{
	for (const struct member *member = members; member < members + count; member++)
		if (member->pid == 0 && is_hopeless(member))
			return WEXITSTATUS(member->status);
	return 0;
}

/* Sets the delay for a member that has just ended, or could not be started. */
static void plan_restart(struct member *member)
{
	int64_t now = clock_monotonic_ms();

	if (now - member->started_ms >= SOUND_MS || member->pause_ms == 0)
		member->pause_ms = PAUSE_MS;
	else
		member->pause_ms = member->pause_ms * 2 < LONGEST_PAUSE_MS ? member->pause_ms * 2 : LONGEST_PAUSE_MS;
	member->start_at_ms = now + member->pause_ms;
}

int64_t members_supervise(struct member *members, size_t count)
{
	int64_t next = -1;
	char ending[64], pause[32];

	for (struct member *member = members; member < members + count; member++) {
		bool ran = member->pid > 0;
		if (!member_ended(member))
			continue;
		if (is_hopeless(member)) {
			if (ran)
				log_error(member->name, "%s; starting it again would not help",
				    child_ending(member->status, ending, sizeof ending));
			continue;
		}
		if (ran) {
			plan_restart(member);
			log_warn(member->name, "%s; starting it again in %s", child_ending(member->status, ending, sizeof ending),
			    duration_format(member->pause_ms, pause, sizeof pause));
		}
		if (clock_monotonic_ms() >= member->start_at_ms && !member_start(member))
			plan_restart(member);
		if (member->pid > 0)
			continue;
		int64_t left = member->start_at_ms - clock_monotonic_ms();
		if (left < 0)
			left = 0;
		if (next < 0 || left < next)
			next = left;
	}
	return next;
}

void members_stop(struct member *members, size_t count, int64_t timeout_ms, int stop_fd)
{
	int64_t end = clock_monotonic_ms() + timeout_ms;
	char ending[64];

	for (struct member *member = members; member < members + count; member++)
		if (!member_ended(member))
			kill(member->pid, SIGTERM);
	for (struct member *member = members; member < members + count; member++) {
		if (member->pid == 0)
			continue;
		int64_t left = end - clock_monotonic_ms();
		if (!child_wait(member->pid, left > 0 ? left : 0, stop_fd, &member->status)) {
			kill(member->pid, SIGKILL);
			child_wait(member->pid, -1, -1, &member->status);
		}
		member->pid = 0;
		if (member->status != 0)
			log_warn(member->name, "%s", child_ending(member->status, ending, sizeof ending));
	}
}
