/* A private PostgreSQL from its creation to its end, on real clusters in directories under /tmp. */
#include "manager/embedded/embedded.h"

#include "manager/embedded/child.h"
#include "manager/embedded/locate.h"
#include "tests/unit/compare.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[PATH_MAX];

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *position)
{
	(void)status, (void)type, (void)position;
	return remove(path);
}

static void make_folder(void)
{
	strcpy(folder, "/tmp/reeve-embedded-test.XXXXXX");
	cr_assert(mkdtemp(folder) != NULL);
	chmod(folder, 0755);
}

static void remove_folder(void)
{
	nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static struct embedded *started(const char *where)
{
	struct reeve_error error = {0};
	struct embedded *embedded = embedded_start(where, -1, &error);

	cr_assert(embedded != NULL, "%s", error.message);
	return embedded;
}

static void stopped(struct embedded *embedded)
{
	struct reeve_error error = {0};

	cr_assert(embedded_stop(embedded, &error), "%s", error.message);
}

/* Returns psql's output for a statement, without the final newline. */
static const char *ask(const struct embedded *embedded, const char *statement)
{
	static char answer[256];
	char command[PATH_MAX + 512];
	struct locate_programs programs;

	cr_assert(locate_postgres(0, &programs, NULL));
	snprintf(command, sizeof command, "'%s/psql' -XAtq '%s' -c \"%s\" 2>&1", programs.folder,
	    embedded_conninfo(embedded), statement);
	FILE *pipe = popen(command, "r");
	cr_assert(pipe != NULL);
	size_t length = fread(answer, 1, sizeof answer - 1, pipe);
	answer[length] = '\0';
	answer[strcspn(answer, "\n")] = '\0';
	pclose(pipe);
	return answer;
}

static void write_file(const char *name, const char *text)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	cr_assert(file != NULL, "%s", path);
	fputs(text, file);
	fclose(file);
}

TestSuite(embedded, .init = make_folder, .fini = remove_folder);

Test(embedded, is_durable_and_unreachable_from_the_network)
{
	struct embedded *embedded = started(folder);

	cr_assert(eq(str, (char *)ask(embedded, "show fsync"), "on"));
	cr_assert(eq(str, (char *)ask(embedded, "show synchronous_commit"), "on"));
	cr_assert(eq(str, (char *)ask(embedded, "show full_page_writes"), "on"));
	cr_assert(eq(str, (char *)ask(embedded, "show listen_addresses"), ""));
	cr_assert(eq(str, (char *)ask(embedded, "show server_encoding"), "UTF8"));
	cr_assert(eq(str, (char *)ask(embedded, "select datcollate from pg_database where datname = 'reeve'"), "C"));
	cr_assert(eq(str, (char *)ask(embedded, "select rolsuper from pg_roles where rolname = current_user"), "f"));

	char path[PATH_MAX + 16];
	struct stat status;
	snprintf(path, sizeof path, "%s/socket", folder);
	cr_assert(eq(int, stat(path, &status), 0));
	cr_assert(eq(int, status.st_mode & 0777, 0700));
	stopped(embedded);
}

Test(embedded, recovers_after_its_server_was_killed)
{
	struct embedded *embedded = started(folder);

	ask(embedded, "create table t as select 5 as x");
	kill(embedded_pid(embedded), SIGKILL);
	while (embedded_alive(embedded))
		poll(NULL, 0, 10);
	cr_assert(not(embedded_stop(embedded, NULL)));
	embedded = started(folder);
	cr_assert(eq(str, (char *)ask(embedded, "select x from t"), "5"));
	stopped(embedded);
}

Test(embedded, is_not_misled_by_a_stale_pid_file)
{
	char text[PATH_MAX + 64];

	stopped(started(folder));
	/* The id of a live process that is not PostgreSQL: our own. */
	snprintf(text, sizeof text, "%d\n%s/postgres\n0\n5432\n\n\n\nready   \n", (int)getpid(), folder);
	write_file("postgres/postmaster.pid", text);
	stopped(started(folder));
}

/* Gives a file or directory to the user that would have created it: the cluster's user, if we are root. */
static void give_away(const char *name)
{
	const struct passwd *user = getpwnam("postgres");
	char path[PATH_MAX + 64];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	if (geteuid() == 0)
		cr_assert(eq(int, lchown(path, user->pw_uid, user->pw_gid), 0));
}

static void leave_unfinished_cluster(void)
{
	char path[PATH_MAX + 32];

	snprintf(path, sizeof path, "%s/postgres.new", folder);
	cr_assert(eq(int, mkdir(path, 0700), 0));
	write_file("postgres.new/PG_VERSION", "15\n");
	give_away("postgres.new/PG_VERSION");
	give_away("postgres.new");
}

Test(embedded, starts_over_after_an_interrupted_initdb)
{
	char path[PATH_MAX + 32];

	leave_unfinished_cluster();
	stopped(started(folder));
	snprintf(path, sizeof path, "%s/postgres.new", folder);
	cr_assert(ne(int, access(path, F_OK), 0));
}

/* The cluster's user can replace one of its directories by a link while root walks through it; root would then remove
 * what the link points to. */
Test(embedded, removes_nothing_that_the_clusters_user_could_not_remove)
{
	struct reeve_error error = {0};
	char path[PATH_MAX + 32];

	if (geteuid() != 0) {
		remove_folder(); /* a skipped test's fini does not run */
		cr_skip("only root runs the cluster as another user");
	}
	leave_unfinished_cluster();
	snprintf(path, sizeof path, "%s/postgres.new/of root", folder);
	cr_assert(eq(int, mkdir(path, 0755), 0));
	write_file("postgres.new/of root/file", "");
	cr_assert(embedded_start(folder, -1, &error) == NULL);
	cr_assert(strstr(error.message, "postgres.new") != NULL, "%s", error.message);
	strcat(path, "/file");
	cr_assert(eq(int, access(path, F_OK), 0));
}

Test(embedded, uses_a_short_socket_folder_for_a_long_path)
{
	char path[PATH_MAX + 512], link[PATH_MAX + 600], target[PATH_MAX];

	snprintf(path, sizeof path, "%s/%0100d/%0100d and 'quotes', commas", folder, 1, 2);
	struct embedded *embedded = started(path);
	cr_assert(eq(str, (char *)ask(embedded, "select 1"), "1"));
	snprintf(link, sizeof link, "%s/socket", path);
	ssize_t length = readlink(link, target, sizeof target - 1);
	cr_assert(gt(long, length, 0));
	target[length] = '\0';
	cr_assert(eq(int, strncmp(target, "/tmp/reeve-", 11), 0));

	/* A killed server leaves it there, and the next start removes it; a stopped server removes its own. */
	kill(embedded_pid(embedded), SIGKILL);
	while (embedded_alive(embedded))
		poll(NULL, 0, 10);
	embedded_stop(embedded, NULL);
	embedded = started(path);
	cr_assert(ne(int, access(target, F_OK), 0));
	cr_assert(gt(long, readlink(link, target, sizeof target - 1), 0));
	stopped(embedded);
	cr_assert(ne(int, access(target, F_OK), 0));
	cr_assert(ne(int, access(link, F_OK), 0));
}

Test(embedded, refuses_a_folder_in_use)
{
	struct reeve_error error = {0};
	struct stat lock;
	char path[PATH_MAX + 8];
	struct embedded *embedded = started(folder);

	cr_assert(embedded_start(folder, -1, &error) == NULL);
	cr_assert(eq(int, error.code, STATUS(FAILED_PRECONDITION)));
	cr_assert(strstr(error.message, "in use by process") != NULL, "%s", error.message);
	cr_assert(eq(str, (char *)ask(embedded, "select 1"), "1"));
	stopped(embedded);
	/* Another user cannot hold the lock. */
	snprintf(path, sizeof path, "%s/lock", folder);
	cr_assert_eq(stat(path, &lock), 0);
	cr_expect_eq(lock.st_mode & 0777, 0600);
}

Test(embedded, refuses_another_major_version)
{
	struct reeve_error error = {0};

	stopped(started(folder));
	write_file("postgres/PG_VERSION", "9\n");
	cr_assert(embedded_start(folder, -1, &error) == NULL);
	cr_assert(eq(int, error.code, STATUS(FAILED_PRECONDITION)));
	cr_assert(strstr(error.message, "needs PostgreSQL 9") != NULL, "%s", error.message);
	cr_assert(strstr(error.message, "postgresql-9") != NULL, "%s", error.message);
}

/* The error has the last message of the server, from this start only. */
Test(embedded, reports_why_the_server_ended)
{
	struct reeve_error error = {0};

	stopped(started(folder));
	write_file("postgres/postgresql.auto.conf", "max_connections = none\n");
	cr_assert(embedded_start(folder, -1, &error) == NULL);
	cr_assert(strstr(error.message, "exited with code 1 (FATAL:  ") != NULL, "%s", error.message);
	cr_assert(strstr(error.message, "postgresql.auto.conf") != NULL, "%s", error.message);
	cr_assert(strstr(error.message, "; its messages are in ") != NULL, "%s", error.message);
	write_file("postgres/postgresql.auto.conf", "");
	stopped(started(folder));
}

Test(embedded, refuses_a_folder_that_holds_something_else)
{
	struct reeve_error error = {0};
	char path[PATH_MAX + 16];

	snprintf(path, sizeof path, "%s/postgres", folder);
	cr_assert(eq(int, mkdir(path, 0700), 0));
	if (geteuid() == 0)
		cr_assert(eq(int, chown(path, 65534, 65534), 0));
	cr_assert(embedded_start(folder, -1, &error) == NULL);
	cr_assert(strstr(error.message, "holds no PostgreSQL cluster") != NULL, "%s", error.message);
}

Test(embedded, names_the_folder_that_the_clusters_user_may_not_enter)
{
	struct reeve_error error = {0};
	char path[PATH_MAX + 16], expected[PATH_MAX + 32];

	if (geteuid() != 0) {
		remove_folder(); /* a skipped test's fini does not run */
		cr_skip("only root runs the cluster as another user");
	}
	snprintf(path, sizeof path, "%s/barred", folder);
	cr_assert(eq(int, mkdir(path, 0700), 0));
	strcat(path, "/data");
	cr_assert(embedded_start(path, -1, &error) == NULL);
	cr_assert(eq(int, error.code, STATUS(PERMISSION_DENIED)));
	snprintf(expected, sizeof expected, "may not enter %s/barred:", folder);
	cr_assert(strstr(error.message, expected) != NULL, "%s", error.message);
}

Test(embedded, stops_on_request)
{
	struct reeve_error error = {0};
	int ends[2];

	cr_assert(eq(int, pipe(ends), 0));
	cr_assert(eq(int, (int)write(ends[1], "x", 1), 1));
	cr_assert(embedded_start(folder, ends[0], &error) == NULL);
	cr_assert(eq(int, error.code, STATUS(CANCELLED)));
	stopped(started(folder));
	close(ends[0]);
	close(ends[1]);
}

Test(embedded, ends_with_the_process_that_started_it)
{
	int ends[2];
	int status;
	pid_t server;

	prctl(PR_SET_CHILD_SUBREAPER, 1); /* the server becomes our child */
	cr_assert(eq(int, pipe(ends), 0));
	pid_t owner = fork();
	if (owner == 0) {
		server = embedded_pid(started(folder));
		if (write(ends[1], &server, sizeof server) != sizeof server)
			_exit(1);
		pause();
	}
	cr_assert(eq(int, (int)read(ends[0], &server, sizeof server), (int)sizeof server));
	kill(owner, SIGKILL);
	waitpid(owner, NULL, 0);
	/* Waits for that server if it is still shutting down. */
	struct embedded *embedded = started(folder);
	cr_assert(eq(int, waitpid(server, &status, 0), server));
	cr_assert(eq(int, status, 0));
	stopped(embedded);
	close(ends[0]);
	close(ends[1]);
}
