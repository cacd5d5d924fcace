/* Prints what migrate() would run. The script itself checks the database's version. */
#include "manager/store/schema_print.h"

#include "manager/store/migrate.h"

#include <sql/sql.h>

static bool known(int from)
{
	if (from > SQL_VERSION)
		fprintf(stderr, "reeve-manager: --schema-from is %d; the newest schema this program knows is %d\n", from,
		    SQL_VERSION);
	else if (from && from < SQL_VERSION && !migration_from(from))
		fprintf(stderr,
		    "reeve-manager: --schema-from is %d, a version that no release had; this program upgrades version %d and "
		    "newer releases\n",
		    from, sql_migrations[0].from);
	else
		return true;
	return false;
}

static void tables_print(const char *sql, int version, const char *name, FILE *out)
{
	fprintf(out, "\n%s;\nexecute reeve_schema_note('%d', '%s');\n", sql, version, name);
}

bool schema_print(int from, FILE *out)
{
	if (!known(from))
		return false;
	fprintf(out, "-- The database objects of Reeve %s, schema version %d; for a database ", REEVE_VERSION, SQL_VERSION);
	fprintf(out, from ? "of version %d.\n" : "without any.\n", from);
	fprintf(out, "-- The role that runs this owns them. psql -v ON_ERROR_STOP=1 stops at what is refused.\n");
	fprintf(out, "%s;\nset local client_min_messages = warning;\n%s;\n", sql_statements[SQL_BEGIN].text,
	    sql_statements[SQL_SCHEMA_BEGIN].text);
	fprintf(out, "set local reeve.schema_from = %d;\n%s;\n", from, sql_statements[SQL_SCHEMA_CHECK].text);
	fprintf(out, "prepare reeve_schema_note(text, text) as\n%s;\n", sql_statements[SQL_SCHEMA_NOTE].text);
	if (from == 0)
		tables_print(sql_tables, from = SQL_VERSION, "tables", out);
	for (const struct sql_migration *m; (m = migration_from(from)); from = m->to)
		tables_print(m->text, m->to, m->name, out);
	fprintf(out, "\n%s;\nprepare reeve_schema_define(text, text, text) as\n%s;\n",
	    sql_statements[SQL_SCHEMA_DEFINE_BEGIN].text, sql_statements[SQL_SCHEMA_DEFINE].text);
	for (const struct sql_definition *d = sql_definitions; d < sql_definitions + sql_definition_count; d++)
		fprintf(out, "\n%sexecute reeve_schema_define('%s', '%s', '%s');\n", d->text, d->name, d->hash, REEVE_VERSION);
	fprintf(out, "\ndeallocate reeve_schema_note;\ndeallocate reeve_schema_define;\n%s;\n",
	    sql_statements[SQL_COMMIT].text);
	return true;
}
