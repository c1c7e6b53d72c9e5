/* The loops that make columns of record batches. See columns.c. */
#ifndef ODRADEK_COLUMNS_H
#define ODRADEK_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

/* The numbers of columns/layout.py: the columns of a row of `walk_headers`, its results, the columns of the batches that
 * `decode_records` takes, their faults, the bits of columns, and the totals. */
enum {
    ROW_POSITION, ROW_SIZE, ROW_BASE_OFFSET, ROW_LAST_DELTA, ROW_BASE_TIMESTAMP, ROW_MAX_TIMESTAMP, ROW_PRODUCER_ID,
    ROW_ATTRIBUTES, ROW_COUNT, ROW_CRC, ROW_LEADER_EPOCH, ROW_NUMBERS
};
enum { END_OF_BUFFER, ROWS_FULL, NO_BATCH, OUT_OF_ORDER };
enum {
    BATCH_START, BATCH_STOP, BATCH_FIRST_OFFSET, BATCH_END_DELTA, BATCH_FIRST_TIMESTAMP, BATCH_APPEND_TIME,
    BATCH_IS_APPEND_TIME, BATCH_RECORDS, BATCH_NUMBERS
};
enum { BATCH_WHOLE, BATCH_BROKEN, BATCH_NO_SPACE };
enum { WANTS_KEYS = 1, WANTS_VALUES = 2, WANTS_HEADERS = 4 };
enum {
    TOTAL_ROWS, TOTAL_KEY_BYTES, TOTAL_VALUE_BYTES, TOTAL_HEADER_ROWS, TOTAL_HEADER_KEY_BYTES, TOTAL_HEADER_VALUE_BYTES,
    TOTAL_NULL_KEYS, TOTAL_NULL_VALUES, TOTAL_NUMBERS
};
enum { FIRST_OFFSET_BOUND, LAST_OFFSET_BOUND, FIRST_TIMESTAMP_BOUND, LAST_TIMESTAMP_BOUND, BOUND_NUMBERS };

typedef struct {
    int64_t position;  /* after the last batch */
    int64_t rows;
    int result;
} HeaderWalk;

/* Reads the headers of the batches of data[start:stop] into rows of ROW_NUMBERS numbers. */
HeaderWalk walk_headers(const uint8_t *data, int64_t start, int64_t stop, int64_t file_position, int64_t least_offset,
                        int is_whole, int64_t *rows, int64_t capacity);

/* A column of bytes: the ends and the validity have one entry for each row, and the ends one more. */
typedef struct {
    int32_t *ends;
    uint8_t *validity;
    uint8_t *bytes;
    int64_t room;  /* bytes */
} BytesColumn;

typedef struct {
    int64_t capacity;  /* rows of all columns but those of headers */
    int64_t *offsets, *timestamps;
    int32_t *types;
    BytesColumn keys, values;
    int32_t *header_ends;
    int64_t pair_capacity;
    int32_t *pair_ends;  /* of the key and the value of each header, in turn */
    uint8_t *pair_validity, *pair_keys, *pair_values;
    int64_t pair_key_room, pair_value_room;
} RecordColumns;

/* Decodes the records of `count` batches, whose payloads are in `data`, into the columns. A batch with a fault adds no row. */
void decode_records(const uint8_t *data, int64_t size, const int64_t *batches, int64_t count, uint8_t *faults,
                    const int64_t *bounds, int64_t wanted, const RecordColumns *columns, int64_t *totals);

#endif
