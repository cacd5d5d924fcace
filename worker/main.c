/*
 * reeve-worker: runs tasks by the programs that a handlers file names.
 */
#include "common/log.h"
#include "worker/program.h"

#include <reeve/worker.h>
#include <sys/resource.h>

/* Each running program takes a few descriptors here. After the spawner was forked: the programs keep the usual limit.
 */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

int main(int argc, char **argv)
{
	struct program_options options;
	struct reeve_worker *worker;
	int code;

	if (program_options_read(&options, argc, argv, &code))
		return code;
	log_setup("reeve-worker", options.level);
	worker = reeve_worker_create(&options.worker);
	raise_file_limit();
	reeve_worker_stop_on_signals(worker);
	reeve_worker_handle_file(worker, options.handlers);
	code = reeve_worker_run(worker);
	reeve_worker_destroy(worker);
	return code;
}
