/* `reeve doctor`: problems, and how to solve them. */
#include "client/cmd/command.h"
#include "client/cmd/fields.h"
#include "client/cmd/terminal.h"
#include "common/limits.h"

#include <reeve/v1/admin_calls.h>
#include <stdio.h>
#include <stdlib.h>

/* The exit codes are those of `reeve check`. */
enum { NOTHING_WRONG = 0, WARNING = 1, CRITICAL = 2, UNKNOWN = 3 };

static const struct option_spec doctor_specs[] = {
    OPT_SPAN(0, "older", OPTION_FIELD("older_ms"), 1, DAYS_MS(LIMIT_AGE_DAYS),
        "report transactions and lags of standbys from this age on; if not set, 5m"),
    {0},
};

static const struct option_table doctor_table = {
    .program = "reeve doctor",
    .usage = "[--older DURATION] [--json]",
    .summary =
        "Examines the database, the managers and the workers, and prints problems and how to solve them, the worst "
        "first: schema, rights, clocks, PostgreSQL's settings, dead rows, old transactions and replication slots, "
        "standbys, lost workers, versions, maintenance, certificates.",
    .epilogue = "Example: reeve doctor --older 1m\n"
                "\n"
                "Exit codes, as those of `reeve check`: 0 nothing is wrong (there may be notes),\n"
                "1 warnings, 2 critical findings, 3 unknown (no manager, no database, wrong usage).",
    .specs = doctor_specs,
};

static int print_finding(const Reeve__V1__Finding *finding)
{
	struct shown severity, area;

	fields_word(finding, "severity", &severity);
	fields_word(finding, "area", &area);
	printf("%-8s %s: ", severity.value, area.value);
	terminal_write_clean(stdout, finding->subject);
	fputs(": ", stdout);
	terminal_write_clean(stdout, finding->problem);
	fputs("\n         ", stdout);
	terminal_write_clean(stdout, finding->advice);
	putchar('\n');
	free(severity.owned);
	free(area.owned);
	return (int)finding->severity;
}

static int print_findings(const Reeve__V1__DoctorResponse *response, bool json)
{
	int worst = 0;

	if (json)
		command_print_json(response);
	for (size_t i = 0; i < response->n_findings; i++) {
		int severity = json ? (int)response->findings[i]->severity : print_finding(response->findings[i]);

		worst = severity > worst ? severity : worst;
	}
	if (!json && worst < REEVE__V1__FINDING_SEVERITY__FINDING_SEVERITY_WARNING)
		printf("nothing is wrong, as manager %s sees it\n", response->manager);
	return worst == REEVE__V1__FINDING_SEVERITY__FINDING_SEVERITY_CRITICAL ? CRITICAL
	    : worst == REEVE__V1__FINDING_SEVERITY__FINDING_SEVERITY_WARNING   ? WARNING
	                                                                       : NOTHING_WRONG;
}

int command_doctor(int argc, char **argv)
{
	Reeve__V1__DoctorRequest request = REEVE__V1__DOCTOR_REQUEST__INIT;
	struct option_message options = {.message = &request.base};
	struct shared_options shared = {0};
	struct reeve_failure failure = {0};
	struct reeve_client *client;
	int code;

	if (!command_only_options(&doctor_table, &options, &shared, argc, argv, &code))
		return code == EXIT_OK ? code : UNKNOWN;
	client = command_connect(&shared, &code);
	if (!client)
		return UNKNOWN;
	Reeve__V1__DoctorResponse *response = reeve_admin_doctor(client, &request, NULL, &failure);
	if (response) {
		code = print_findings(response, shared.json);
	} else {
		command_failed(&failure);
		code = UNKNOWN;
	}
	reeve_free(response);
	reeve_client_destroy(client);
	return code;
}
