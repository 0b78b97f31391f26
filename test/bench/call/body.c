/*-------------------------------------------------------------------------
 *
 * body.c
 *		Calls a function of handle_notify's signature with a large body, as a
 *		driver does that sends it in binary; pgbench cannot.
 *
 * usage: body CONNINFO FUNCTION SECONDS BYTES KEY ORDER_NO
 *
 * Every call repeats the first one.  Prints calls per second.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libpq-fe.h>

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void
check(PGconn *conn, PGresult *result, ExecStatusType expected)
{
	if (PQresultStatus(result) != expected)
	{
		fprintf(stderr, "%s", PQerrorMessage(conn));
		exit(1);
	}
	PQclear(result);
}

int
main(int argc, char **argv)
{
	PGconn	   *conn;
	char		sql[200];
	char	   *body;
	const char *values[4];
	int			lengths[4] = {0};
	int			formats[4] = {0, 0, 0, 1};
	double		start;
	double		end;
	long		calls = 0;

	if (argc != 7)
		return 2;
	conn = PQconnectdb(argv[1]);
	if (PQstatus(conn) != CONNECTION_OK)
	{
		fprintf(stderr, "%s", PQerrorMessage(conn));
		return 1;
	}
	lengths[3] = atoi(argv[4]);
	body = malloc(lengths[3]);
	if (body == NULL)
		return 1;
	for (int i = 0; i < lengths[3]; i++)
		body[i] = (char) (i * 31);
	values[0] = argv[5];
	values[1] = "pay";
	values[2] = argv[6];
	values[3] = body;
	snprintf(sql, sizeof(sql), "SELECT * FROM %s($1::text, $2::text, $3::text, $4::bytea)", argv[2]);
	check(conn, PQprepare(conn, "call", sql, 0, NULL), PGRES_COMMAND_OK);
	check(conn, PQexecPrepared(conn, "call", 4, values, lengths, formats, 0), PGRES_TUPLES_OK);
	start = now();
	do
	{
		check(conn, PQexecPrepared(conn, "call", 4, values, lengths, formats, 0), PGRES_TUPLES_OK);
		calls++;
		end = now();
	} while (end - start < atof(argv[3]));
	printf("%.3f\n", calls / (end - start));
	PQfinish(conn);
	free(body);
	return 0;
}
