/*-------------------------------------------------------------------------
 *
 * stat_file.c
 *		The file that keeps the statistics over a restart.
 *
 * It is written when the postmaster ends, with everything at rest, and removed as
 * soon as it was read: after a crash there is none, and all begins at zero.  An
 * immediate shutdown is no crash of shared memory and writes it too.  A start that
 * fails later on ends with another exit code and does not: the figures are lost.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "pgstat.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"

#include "stats.h"

#define STAT_FILE		PGSTAT_STAT_PERMANENT_DIRECTORY "/notify_claim.stat"
#define STAT_MAGIC		0x6e630002

/* What it begins with; the entry for the rest, the others and a CRC follow. */
typedef struct StatFile
{
	uint32		magic;
	uint32		entry_size;
	uint64		entries;
	uint64		since;
} StatFile;

/* Reads, and includes it in the CRC. */
static bool
read_part(FILE *file, void *data, size_t size, pg_crc32c *crc)
{
	if (fread(data, size, 1, file) != 1)
		return false;
	COMP_CRC32C(*crc, data, size);
	return true;
}

static bool
write_part(FILE *file, const void *data, size_t size, pg_crc32c *crc)
{
	COMP_CRC32C(*crc, data, size);
	return fwrite(data, size, 1, file) == 1;
}

/* Reads all of the file; false where it is not what was written. */
static bool
read_all(FILE *file)
{
	StatFile	head;
	NClaimStatEntry entry;
	pg_crc32c	crc;
	pg_crc32c	expected;

	INIT_CRC32C(crc);
	if (!read_part(file, &head, sizeof(head), &crc) || head.magic != STAT_MAGIC ||
		head.entry_size != sizeof(entry) ||
		!read_part(file, nclaim_stat_rest(), sizeof(entry), &crc))
		return false;
	pg_atomic_write_u64(nclaim_stat_began(), head.since);
	for (uint64 i = 0; i < head.entries; i++)
	{
		if (!read_part(file, &entry, sizeof(entry), &crc))
			return false;
		entry.channel[sizeof(entry.channel) - 1] = '\0';
		entry.event_type[sizeof(entry.event_type) - 1] = '\0';
		nclaim_stat_put(&entry);
	}
	FIN_CRC32C(crc);
	return fread(&expected, sizeof(expected), 1, file) == 1 && EQ_CRC32C(crc, expected);
}

/*
 * Reads the file of the last shutdown, if there is one, into memory that nobody
 * else uses, and removes it.
 */
void
nclaim_stat_load(void)
{
	FILE	   *file = AllocateFile(STAT_FILE, PG_BINARY_R);

	if (file == NULL)
	{
		if (errno != ENOENT)
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not read file \"%s\": %m", STAT_FILE)));
		return;
	}
	if (!read_all(file))
	{
		ereport(LOG,
				(errmsg("ignoring invalid data in file \"%s\"", STAT_FILE)));
		nclaim_stat_init_memory();
	}
	FreeFile(file);
	unlink(STAT_FILE);
}

/*
 * Is the entry worth keeping?  Not the places that a reset has left, but its time,
 * and that of a warning.
 */
static bool
is_kept(NClaimStatEntry *entry)
{
	for (int i = 0; i < NCLAIM_STATS; i++)
	{
		if (pg_atomic_read_u64(&entry->values[i]) != 0)
			return true;
	}
	return pg_atomic_read_u64(&entry->since) != 0 || pg_atomic_read_u64(&entry->warned) != 0;
}

static bool
write_all(FILE *file)
{
	StatFile	head = {STAT_MAGIC, sizeof(NClaimStatEntry), 0, pg_atomic_read_u64(nclaim_stat_began())};
	NClaimStatEntry *entry;
	pg_crc32c	crc;
	int			position = 0;

	while ((entry = nclaim_stat_next_of_all(&position)) != NULL)
		head.entries += is_kept(entry);
	INIT_CRC32C(crc);
	if (!write_part(file, &head, sizeof(head), &crc) ||
		!write_part(file, nclaim_stat_rest(), sizeof(*entry), &crc))
		return false;
	position = 0;
	while ((entry = nclaim_stat_next_of_all(&position)) != NULL)
	{
		if (is_kept(entry) && !write_part(file, entry, sizeof(*entry), &crc))
			return false;
	}
	FIN_CRC32C(crc);
	return fwrite(&crc, sizeof(crc), 1, file) == 1;
}

/* Writes the file when the postmaster ends, unless that failed. */
void
nclaim_stat_save(int code, Datum arg)
{
	FILE	   *file;
	bool		written;

	if (code != 0 || !nclaim_stat_enabled())
		return;
	file = AllocateFile(STAT_FILE ".tmp", PG_BINARY_W);
	written = file != NULL && write_all(file);
	if (file != NULL && FreeFile(file) != 0)
		written = false;
	if (written)
		(void) durable_rename(STAT_FILE ".tmp", STAT_FILE, LOG);
	else
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", STAT_FILE ".tmp")));
		unlink(STAT_FILE ".tmp");
	}
}
