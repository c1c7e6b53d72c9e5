/* The walk over the records of an uncompressed payload, format 2 (KIP-98).
 *
 * protocol/records/walk.py has the same walk in Python, its contract and the meaning of the results; tests/protocol/
 * test_walk.py compares both. The bytes are untrusted: `at` never passes `stop`, `stop` never passes `end`, and every length
 * is compared with the remaining bytes before it is added.
 */
#include "records.h"

/* A varint of 32 bits has at most five bytes. */
enum { LONGEST_LENGTH_BYTES = 5 };

typedef struct {
    const uint8_t *at;
    const uint8_t *stop;
} Cursor;

/* A zigzag varint of at most `bits` bits; 0 when it ends too early, or is longer. */
static int read_varint(Cursor *cursor, int bits, int64_t *value)
{
    uint64_t number = 0;
    int shift = 0;
    while (cursor->at < cursor->stop) {
        uint64_t byte = *cursor->at++;
        if (shift + 7 > bits && (byte >> (bits - shift)) != 0)
            return 0;
        number |= (byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
            return 1;
        }
        shift += 7;
    }
    return 0;
}

/* Skips a length, at least `least`, and as many bytes; 0 when they are not there. */
static int skip_bytes(Cursor *cursor, int64_t least, int64_t *size)
{
    if (!read_varint(cursor, 32, size) || *size < least || *size > cursor->stop - cursor->at)
        return 0;
    if (*size > 0)
        cursor->at += *size;
    return 1;
}

/* Whether the bytes are UTF-8 as RFC 3629 has it: no surrogate, nothing longer than need be. */
static int is_utf8(const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        uint8_t first = *at++, low = 0x80, high = 0xBF;
        int more = first < 0x80 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
        if (more == 0)
            continue;
        if (first < 0xC2 || first > 0xF4 || more > end - at)
            return 0;
        if (first == 0xE0)
            low = 0xA0;
        else if (first == 0xED)
            high = 0x9F;
        else if (first == 0xF0)
            low = 0x90;
        else if (first == 0xF4)
            high = 0x8F;
        for (; more > 0; more--, at++) {
            if (*at < low || *at > high)
                return 0;
            low = 0x80;
            high = 0xBF;
        }
    }
    return 1;
}

static int skip_headers(Cursor *cursor)
{
    int64_t count, size;
    if (!read_varint(cursor, 32, &count) || count < 0 || count > cursor->stop - cursor->at)
        return 0;
    for (; count > 0; count--) {
        if (!skip_bytes(cursor, 0, &size) || !is_utf8(cursor->at - size, cursor->at))
            return 0;
        if (!skip_bytes(cursor, -1, &size))
            return 0;
    }
    return 1;
}

/* One record, whose body `cursor` holds. */
static int walk_record(Cursor *cursor, int64_t index, RecordScan *scan)
{
    int64_t delta, offset, key, value, timestamp;
    /* The attributes mean nothing. Clients that read them as a varint lose their place after a large one. */
    if (cursor->at == cursor->stop || *cursor->at++ > 0x7F)
        return 0;
    if (!read_varint(cursor, 64, &delta) || !read_varint(cursor, 32, &offset) || !skip_bytes(cursor, -1, &key)
        || !skip_bytes(cursor, -1, &value) || !skip_headers(cursor) || cursor->at != cursor->stop)
        return 0;
    timestamp = (int64_t)((uint64_t)scan->base_timestamp + (uint64_t)delta);
    if (timestamp > scan->max_timestamp)
        scan->max_timestamp = timestamp;
    scan->disordered += offset != index;
    if (scan->needs_key && key < 0)
        scan->keyless++;
    else if (timestamp != -1 && (timestamp < scan->earliest || timestamp > scan->latest))
        scan->out_of_range++;
    if (scan->is_searching && timestamp >= scan->least_timestamp && offset >= scan->least_offset) {
        scan->is_searching = 0;
        scan->found_timestamp = timestamp;
        scan->found_offset = offset;
    }
    return 1;
}

/* Whether the varint continues after its last possible byte: Java has an error of its own for such a length. */
static int is_endless(const uint8_t *at, const uint8_t *end)
{
    int index;
    if (end - at < LONGEST_LENGTH_BYTES)
        return 0;
    for (index = 0; index < LONGEST_LENGTH_BYTES; index++)
        if (at[index] < 0x80)
            return 0;
    return 1;
}

int walk_records(const uint8_t *at, const uint8_t *end, int64_t count, RecordScan *scan)
{
    int64_t index, length;
    Cursor cursor;
    for (index = 0; index < count; index++) {
        cursor.at = at;
        cursor.stop = end;
        if (!read_varint(&cursor, 32, &length))
            return is_endless(at, end) ? ENDLESS_LENGTH : BROKEN;
        if (length < 0 || length > end - cursor.at || length > scan->max_record_bytes)
            return BROKEN;
        at = cursor.stop = cursor.at + length;
        if (!walk_record(&cursor, index, scan))
            return BROKEN;
    }
    return at == end ? WHOLE : BROKEN;
}
