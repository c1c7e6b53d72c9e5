/* Record batches as columns: headers as rows of numbers, records as the buffers of Arrow's columns.
 *
 * columns/loops.py has the same loops in Python, compiled by numba, for an installation without this module; tests/columns/
 * test_hostile.py compares both. The bytes are untrusted: every read follows a comparison with the end of the record, of the
 * batch or of the buffer, and every write one with the end of its column. The caller has checked that the columns have as
 * many rows as they say.
 */
#include "columns.h"

#include <string.h>

/* A header (KIP-98), the part of it that its length does not count, and its format. */
enum { HEADER_BYTES = 61, OVERHEAD_BYTES = 12, MAGIC = 2 };
/* A larger base offset could overflow when its deltas are added. */
#define MOST_OFFSET INT64_C(0x7FFFFFFF00000000)
/* Bits that the bytes of a varint may have; the last byte may have more than its number. */
enum { SHORT_VARINT = 35, LONG_VARINT = 70 };

typedef struct {
    int64_t rows, key_end, value_end, null_keys, null_values, pairs, pair_key_end, pair_value_end;
} Filled;

typedef struct {
    int64_t delta, offset_delta, key_at, key_size, value_at, value_size;
} Fields;

static int64_t int32_at(const uint8_t *data)
{
    return (int32_t)((uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3]);
}

static int64_t int64_at(const uint8_t *data)
{
    return (int64_t)((uint64_t)(uint32_t)int32_at(data) << 32 | (uint32_t)int32_at(data + 4));
}

HeaderWalk walk_headers(const uint8_t *data, int64_t start, int64_t stop, int64_t file_position, int64_t least_offset,
                        int is_whole, int64_t *rows, int64_t capacity)
{
    HeaderWalk walk = {start, 0, END_OF_BUFFER};
    int64_t expected = least_offset;
    for (;;) {
        const uint8_t *header;
        int64_t size, delta, base_offset, records, *row;
        if (stop - walk.position < HEADER_BYTES)
            return walk;
        if (walk.rows >= capacity) {
            walk.result = ROWS_FULL;
            return walk;
        }
        header = data + walk.position;
        size = int32_at(header + 8) + OVERHEAD_BYTES;
        delta = int32_at(header + 23);
        if (header[16] != MAGIC || size < HEADER_BYTES) {
            walk.result = NO_BATCH;
            return walk;
        }
        base_offset = int64_at(header);
        records = int32_at(header + 57);
        if (base_offset < expected || delta < 0 || base_offset > MOST_OFFSET || records < 0) {
            walk.result = OUT_OF_ORDER;
            return walk;
        }
        if (is_whole && size > stop - walk.position)
            return walk;
        row = rows + walk.rows * ROW_NUMBERS;
        row[ROW_POSITION] = (int64_t)((uint64_t)file_position + (uint64_t)walk.position);
        row[ROW_SIZE] = size;
        row[ROW_BASE_OFFSET] = base_offset;
        row[ROW_LAST_DELTA] = delta;
        row[ROW_BASE_TIMESTAMP] = int64_at(header + 27);
        row[ROW_MAX_TIMESTAMP] = int64_at(header + 35);
        row[ROW_PRODUCER_ID] = int64_at(header + 43);
        row[ROW_ATTRIBUTES] = (int64_t)header[21] << 8 | header[22];
        row[ROW_COUNT] = records;
        row[ROW_CRC] = (int64_t)(uint32_t)int32_at(header + 17);
        row[ROW_LEADER_EPOCH] = int32_at(header + 12);
        expected = base_offset + delta + 1;
        walk.rows++;
        walk.position += size;
    }
}

/* A zigzag varint at `position`; returns the position after it, -1 where none ends before `stop`. */
static inline int64_t read_varint(const uint8_t *data, int64_t position, int64_t stop, int bits, int64_t *number)
{
    uint64_t byte, raw;
    int shift = 7;
    if (position >= stop)
        return -1;
    byte = data[position++];
    raw = byte & 0x7F;
    while (byte > 0x7F) {
        if (position >= stop || shift >= bits)
            return -1;
        byte = data[position++];
        raw |= (byte & 0x7F) << shift;
        shift += 7;
    }
    *number = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
    return position;
}

/* Reads a record up to its headers. Returns the end of the record, -1 where it does not parse. */
static inline int64_t read_fields(const uint8_t *data, int64_t position, int64_t end, Fields *found)
{
    int64_t size, stop;
    position = read_varint(data, position, end, SHORT_VARINT, &size);
    if (position < 0 || size < 1 || size > end - position)
        return -1;
    stop = position + size;
    position = read_varint(data, position + 1, stop, LONG_VARINT, &found->delta);
    if (position < 0)
        return -1;
    position = read_varint(data, position, stop, SHORT_VARINT, &found->offset_delta);
    if (position < 0)
        return -1;
    position = read_varint(data, position, stop, SHORT_VARINT, &found->key_size);
    if (position < 0 || found->key_size > stop - position)
        return -1;
    found->key_at = position;
    position += found->key_size > 0 ? found->key_size : 0;
    position = read_varint(data, position, stop, SHORT_VARINT, &found->value_size);
    if (position < 0 || found->value_size > stop - position)
        return -1;
    found->value_at = position;
    return stop;
}

static inline void set_valid(uint8_t *validity, int64_t row, int is_valid)
{
    uint8_t bit = (uint8_t)(1u << (row & 7));
    validity[row >> 3] = (uint8_t)(is_valid ? validity[row >> 3] | bit : validity[row >> 3] & ~bit);
}

/* Appends bytes of a row, or null for a negative size. Returns the end of the bytes so far, -1 without room. */
static inline int64_t put(const BytesColumn *column, int64_t row, int64_t end, const uint8_t *data, int64_t size)
{
    if (size > 0) {
        if (size > column->room - end)
            return -1;
        memcpy(column->bytes + end, data, (size_t)size);
        end += size;
    }
    set_valid(column->validity, row, size >= 0);
    column->ends[row + 1] = (int32_t)end;
    return end;
}

/* Appends a header. Returns 0 without room. */
static int put_header(const RecordColumns *columns, Filled *filled, const uint8_t *key, int64_t key_size,
                      const uint8_t *value, int64_t value_size)
{
    int64_t row = filled->pairs, value_bytes = value_size > 0 ? value_size : 0;
    if (row >= columns->pair_capacity || key_size > columns->pair_key_room - filled->pair_key_end
        || value_bytes > columns->pair_value_room - filled->pair_value_end)
        return 0;
    if (key_size > 0)
        memcpy(columns->pair_keys + filled->pair_key_end, key, (size_t)key_size);
    if (value_bytes > 0)
        memcpy(columns->pair_values + filled->pair_value_end, value, (size_t)value_bytes);
    filled->pair_key_end += key_size;
    filled->pair_value_end += value_bytes;
    set_valid(columns->pair_validity, row, value_size >= 0);
    columns->pair_ends[2 * row + 2] = (int32_t)filled->pair_key_end;
    columns->pair_ends[2 * row + 3] = (int32_t)filled->pair_value_end;
    filled->pairs = row + 1;
    return 1;
}

/* Reads the headers of one record. Returns the position after them, -1 where they do not parse, -2 without room. */
static int64_t read_headers(const uint8_t *data, int64_t position, int64_t stop, int is_wanted,
                            const RecordColumns *columns, Filled *filled)
{
    int64_t count;
    position = read_varint(data, position, stop, SHORT_VARINT, &count);
    if (position < 0 || count < 0 || count > stop - position)
        return -1;
    for (; count > 0; count--) {
        int64_t key_at, key_size, value_size;
        position = read_varint(data, position, stop, SHORT_VARINT, &key_size);
        if (position < 0 || key_size < 0 || key_size > stop - position)
            return -1;
        key_at = position;
        position = read_varint(data, position + key_size, stop, SHORT_VARINT, &value_size);
        if (position < 0 || value_size > stop - position)
            return -1;
        if (is_wanted && !put_header(columns, filled, data + key_at, key_size, data + position, value_size))
            return -2;
        position += value_size > 0 ? value_size : 0;
    }
    return position;
}

/* Decodes one batch; returns its fault. The caller restores `filled` after one. */
static int decode_batch(const uint8_t *data, const int64_t *batch, const int64_t *bounds, int64_t wanted,
                        const RecordColumns *columns, Filled *filled)
{
    int64_t position = batch[BATCH_START], end = batch[BATCH_STOP], previous = -1, number;
    int is_appended = batch[BATCH_IS_APPEND_TIME] != 0;
    for (number = 0; number < batch[BATCH_RECORDS]; number++) {
        Fields record;
        int64_t offset, timestamp, row = filled->rows, stop = read_fields(data, position, end, &record);
        int is_kept;
        if (stop < 0 || record.offset_delta <= previous || record.offset_delta > batch[BATCH_END_DELTA])
            return BATCH_BROKEN;
        previous = record.offset_delta;
        offset = (int64_t)((uint64_t)batch[BATCH_FIRST_OFFSET] + (uint64_t)record.offset_delta);
        timestamp = is_appended ? batch[BATCH_APPEND_TIME]
                                : (int64_t)((uint64_t)batch[BATCH_FIRST_TIMESTAMP] + (uint64_t)record.delta);
        is_kept = bounds[FIRST_OFFSET_BOUND] <= offset && offset <= bounds[LAST_OFFSET_BOUND]
                  && bounds[FIRST_TIMESTAMP_BOUND] <= timestamp && timestamp <= bounds[LAST_TIMESTAMP_BOUND];
        position = record.value_at + (record.value_size > 0 ? record.value_size : 0);
        if (position < stop && data[position] == 0)
            position++;
        else
            position = read_headers(data, position, stop, (wanted & WANTS_HEADERS) && is_kept, columns, filled);
        if (position != stop)
            return position == -2 ? BATCH_NO_SPACE : BATCH_BROKEN;
        if (!is_kept)
            continue;
        if (row >= columns->capacity)
            return BATCH_NO_SPACE;
        columns->offsets[row] = offset;
        columns->timestamps[row] = timestamp;
        columns->types[row] = is_appended;
        if (wanted & WANTS_KEYS) {
            filled->key_end = put(&columns->keys, row, filled->key_end, data + record.key_at, record.key_size);
            filled->null_keys += record.key_size < 0;
        }
        if (wanted & WANTS_VALUES) {
            filled->value_end = put(&columns->values, row, filled->value_end, data + record.value_at, record.value_size);
            filled->null_values += record.value_size < 0;
        }
        if (filled->key_end < 0 || filled->value_end < 0)
            return BATCH_NO_SPACE;
        if (wanted & WANTS_HEADERS)
            columns->header_ends[row + 1] = (int32_t)filled->pairs;
        filled->rows = row + 1;
    }
    return position == end ? BATCH_WHOLE : BATCH_BROKEN;
}

void decode_records(const uint8_t *data, int64_t size, const int64_t *batches, int64_t count, uint8_t *faults,
                    const int64_t *bounds, int64_t wanted, const RecordColumns *columns, int64_t *totals)
{
    Filled filled = {0, 0, 0, 0, 0, 0, 0, 0};
    int64_t number;
    for (number = 0; number < count; number++) {
        const int64_t *batch = batches + number * BATCH_NUMBERS;
        const Filled before = filled;
        if (batch[BATCH_START] < 0 || batch[BATCH_STOP] > size || batch[BATCH_START] > batch[BATCH_STOP]) {
            faults[number] = BATCH_BROKEN;
            continue;
        }
        faults[number] = (uint8_t)decode_batch(data, batch, bounds, wanted, columns, &filled);
        if (faults[number] != BATCH_WHOLE) {
            filled = before;
            if (faults[number] == BATCH_NO_SPACE)
                break;
        }
    }
    totals[TOTAL_ROWS] = filled.rows;
    totals[TOTAL_KEY_BYTES] = filled.key_end;
    totals[TOTAL_VALUE_BYTES] = filled.value_end;
    totals[TOTAL_HEADER_ROWS] = filled.pairs;
    totals[TOTAL_HEADER_KEY_BYTES] = filled.pair_key_end;
    totals[TOTAL_HEADER_VALUE_BYTES] = filled.pair_value_end;
    totals[TOTAL_NULL_KEYS] = filled.null_keys;
    totals[TOTAL_NULL_VALUES] = filled.null_values;
}
