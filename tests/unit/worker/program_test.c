/* The program reeve-worker: its options, its exit codes, and a run from its start to SIGTERM. */
#include "program.h"
#include "scripted_manager.h"

#include <signal.h>
#include <sys/stat.h>

static char output[64] = "/tmp/reeve-output-XXXXXX", said[16384];
static char handlers[64] = "/tmp/reeve-handlers-XXXXXX";

/* Creates the two files. */
static void set_up(void)
{
	static const char text[] = "[handler echo]\nexec = cat\n[handler sum]\nexec = sha256sum\n"
	                           "[worker]\nconcurrency = 3\nname = of the file\n";
	int fd = mkstemp(handlers);

	unsetenv("REEVE_MANAGER");
	cr_assert_eq(write(fd, text, sizeof text - 1), (ssize_t)sizeof text - 1);
	close(fd);
	fd = mkstemp(output);
	close(fd);
}

static void tear_down(void)
{
	unlink(handlers);
	unlink(output);
}

TestSuite(program, .init = set_up, .fini = tear_down);

static void read_output(void)
{
	FILE *in = fopen(output, "r");

	said[fread(said, 1, sizeof said - 1, in)] = '\0';
	fclose(in);
}

#define run(...) run_list((const char *[]){__VA_ARGS__, NULL})

static int run_list(const char *const *arguments)
{
	int code = wait_program(start_program(arguments, output));

	read_output();
	return code;
}

#define expect_usage(says, ...)                                                                                        \
	do {                                                                                                               \
		cr_expect_eq(run(__VA_ARGS__), 2);                                                                             \
		cr_expect(strstr(said, says), "%s does not say %s", said, says);                                               \
	} while (0)

Test(program, wrong_usage_is_refused)
{
	expect_usage("--handlers FILE is missing", "--concurrency", "4");
	expect_usage("no-such-option", "--no-such-option");
	expect_usage("concurrency", "--handlers", handlers, "--concurrency", "many");
	expect_usage("concurrency", "--handlers", handlers, "--concurrency", "-1");
	expect_usage("drain-timeout", "--handlers", handlers, "--drain-timeout", "soon");
	expect_usage("takes no argument, but was given \"operand\"", "--handlers", handlers, "operand");
	expect_usage("cannot read the handlers file /no/such/file: No such file", "--handlers", "/no/such/file");
	expect_usage("type other has no handler", "--handlers", handlers, "--type", "echo,other");
	expect_usage("queues: name 2 is empty", "--handlers", handlers, "--queue", "a,");
	expect_usage("--log-level: \"loud\" is invalid", "--handlers", handlers, "--log-level", "loud");
	expect_usage("nowhere", "--handlers", handlers, "--manager", "nowhere");
	expect_usage("/no/such/config", "--handlers", handlers, "--config", "/no/such/config");
}

Test(program, checks_its_handlers_file)
{
	cr_expect_eq(run("--check", "--handlers", handlers), 0);
	cr_expect_str_empty(said);
	cr_expect_eq(run("--check", "--handlers", handlers, "--type", "sum,echo"), 0);
	expect_usage("type other has no handler", "--check", "--handlers", handlers, "--type", "other");
	expect_usage("cannot read the handlers file /no/such/file", "--check", "--handlers", "/no/such/file");
	expect_usage("--handlers FILE is missing", "--check");
	expect_usage("the worker has no handlers", "--check", "--handlers", "/dev/null");
}

Test(program, help_and_version)
{
	static const char *const options[] = {"--manager", "--handlers", "--concurrency", "--prefetch", "--name", "--queue",
	    "--type", "--drain-timeout", "--kill-grace", "--config", "--log-level"};

	cr_expect_eq(run("--help"), 0);
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		cr_expect(strstr(said, options[i]), "%s is not in the help", options[i]);
	cr_expect_eq(run("--version"), 0);
	cr_expect_eq(strncmp(said, "reeve-worker ", 13), 0);
	cr_expect_eq(run("--print-options"), 0);
	cr_expect(strstr(said, "| `--drain-timeout DURATION` | `30s` |"), "%s", said);
}

Test(program, runs_until_sigterm)
{
	static struct script script;
	int64_t id;
	pid_t pid;

	script_init(&script);
	script_start(&script);
	pid = start_program((const char *[]){"--manager", script.url, "--handlers", handlers, "--config", handlers,
	                        "--name", "mine", "--queue=a", "--type", "echo", NULL},
	    output);
	id = script_add(&script, "echo", "hello");
	cr_assert(script_wait(&script, script.n_done == 1));
	cr_expect_str_eq(script.tasks[id].result, "hello");
	cr_expect_str_eq(script.registered_name, "mine");
	cr_expect_str_eq(script.registered_types, "echo");
	cr_expect_str_eq(script.registered_queues, "a");
	cr_expect_eq(script.registered_concurrency, 3);
	kill(pid, SIGTERM);
	cr_expect_eq(wait_program(pid), 0);
	cr_expect_eq(script.leaves, 1);
	read_output();
	cr_expect(strstr(said, "worker mine: starting: 3 slots, 1 type, managers "), "%s", said);
	cr_expect(strstr(said, "worker mine: registered as incarnation 1"), "%s", said);
	script_free(&script);
}

Test(program, goes_on_when_nobody_reads_its_log)
{
	static struct script script;
	int64_t id;
	int reader;
	pid_t pid;

	unlink(output);
	cr_assert_eq(mkfifo(output, 0600), 0);
	reader = open(output, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	script_init(&script);
	script_start(&script);
	pid = start_program((const char *[]){"--manager", script.url, "--handlers", handlers, NULL}, output);
	cr_assert(script_wait(&script, script.parked_now == 1));
	close(reader);
	id = script_add(&script, "echo", "hello");
	cr_assert(script_wait(&script, script.n_done == 1));
	cr_expect_str_eq(script.tasks[id].result, "hello");
	kill(pid, SIGTERM); /* it logs that it has stopped */
	cr_expect_eq(wait_program(pid), 0);
	cr_expect_eq(script.leaves, 1);
	script_free(&script);
}
