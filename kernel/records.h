/* The walk over records. See records.c. */
#ifndef ODRADEK_RECORDS_H
#define ODRADEK_RECORDS_H

#include <stdint.h>

enum { WHOLE = 0, BROKEN = 1, ENDLESS_LENGTH = 2 };

typedef struct {
    int64_t most_bytes, base, earliest, latest;
    int needs_key;
    int64_t max_timestamp, disordered, keyless, out_of_range;
    /* What `find` looks for, and what it has found. */
    int seeks;
    int64_t least_timestamp, least_offset, timestamp, offset;
} Found;

/* Walks `count` records, which must fill the bytes exactly. */
int walk_records(const uint8_t *at, const uint8_t *end, int64_t count, Found *found);

#endif
