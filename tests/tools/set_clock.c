/*
 * Preloaded into PostgreSQL: sets its wall clock ahead of the machine's, by the modification time of the file
 * $SET_CLOCK_FILE in seconds since 1970 (`touch -d @3600 FILE`: an hour). The monotonic clock is unchanged.
 *
 * PostgreSQL reads the clock in signal handlers, too. There libfaketime opens and reads a file, which has corrupted
 * PostgreSQL's heap; stat is safe.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static char file[4096];

__attribute__((constructor)) static void begin(void)
{
	*(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	/* Copied, because PostgreSQL writes its process titles over the environment. */
	snprintf(file, sizeof file, "%s", getenv("SET_CLOCK_FILE"));
}

static time_t ahead(void)
{
	struct stat st;
	int kept = errno;
	time_t seconds = stat(file, &st) == 0 ? st.st_mtim.tv_sec : 0;
	errno = kept;
	return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (!real_clock_gettime)
		begin();
	int status = real_clock_gettime(clock, ts);
	if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		ts->tv_sec += ahead();
	return status;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;
	(void)zone;
	int status = clock_gettime(CLOCK_REALTIME, &ts);
	*tv = (struct timeval){ts.tv_sec, ts.tv_nsec / 1000};
	return status;
}

time_t time(time_t *into)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	if (into)
		*into = ts.tv_sec;
	return ts.tv_sec;
}
