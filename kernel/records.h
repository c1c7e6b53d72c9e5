/* The walk over records. See records.c. */
#ifndef ODRADEK_RECORDS_H
#define ODRADEK_RECORDS_H

#include <stdint.h>

enum { WHOLE = 0, BROKEN = 1, ENDLESS_LENGTH = 2 };

typedef struct {
    /* The rules. */
    int64_t max_record_bytes, base_timestamp, earliest, latest;
    int needs_key;
    /* The results: the largest timestamp, and counts of records that violate a rule. */
    int64_t max_timestamp, disordered, keyless, out_of_range;
    /* A search for the first record with at least this timestamp and offset; `is_searching` ends with its result. */
    int is_searching;
    int64_t least_timestamp, least_offset, found_timestamp, found_offset;
} RecordScan;

/* Walks `count` records, which must fill the bytes exactly. */
int walk_records(const uint8_t *at, const uint8_t *end, int64_t count, RecordScan *scan);

#endif
