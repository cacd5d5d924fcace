/* Criterion starts some twenty threads in the process of each test, which allocate while they start. AddressSanitizer
 * of GCC 12 does not release its allocator's locks in a forked child: a child that is forked while another thread holds
 * one waits for ever when it allocates. So fork waits here until all other threads sleep. */
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOKS = 200, PAUSE_US = 500, ASLEEP = 2 /* looks in a row */ };

/* Returns true if the thread of this process runs. */
static bool runs(const char *thread)
{
	char path[300], stat[512];
	snprintf(path, sizeof path, "/proc/self/task/%s/stat", thread);
	FILE *in = fopen(path, "r");
	const char *end = in && fgets(stat, sizeof stat, in) ? strrchr(stat, ')') : NULL;
	if (in)
		fclose(in);
	return end && end[1] && end[2] != 'S';
}

static bool others_sleep(void)
{
	DIR *threads = opendir("/proc/self/task");
	bool sleep = true;
	for (const struct dirent *entry; sleep && threads && (entry = readdir(threads));)
		sleep = atoi(entry->d_name) <= 0 || atoi(entry->d_name) == gettid() || !runs(entry->d_name);
	if (threads)
		closedir(threads);
	return sleep;
}

static void wait_for_sleep(void)
{
	for (int look = 0, asleep = 0; look < LOOKS && asleep < ASLEEP; look++) {
		asleep = others_sleep() ? asleep + 1 : 0;
		if (asleep < ASLEEP)
			usleep(PAUSE_US);
	}
}

static void __attribute__((constructor)) wait_before_forks(void)
{
	pthread_atfork(wait_for_sleep, NULL, NULL);
}
