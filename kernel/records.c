/* The walk over the records of an uncompressed payload, format 2 (KIP-98).
 *
 * protocol/records/walk.py holds the same walk in Python, its contract and the meaning of what it returns;
 * tests/protocol/test_walk.py holds both against each other. Bytes come from strangers: `at` never passes `stop`, `stop`
 * never passes `end`, and every length is compared with what remains before it is added.
 */
#include "records.h"

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

/* Passes what a length from `least` on says; 0 when it is not there. */
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
static int walk_record(Cursor *cursor, int64_t index, Found *found)
{
    int64_t delta, offset, key, value, timestamp;
    /* The attributes mean nothing. Clients that read them as a varint lose their place after a large one. */
    if (cursor->at == cursor->stop || *cursor->at++ > 0x7F)
        return 0;
    if (!read_varint(cursor, 64, &delta) || !read_varint(cursor, 32, &offset) || !skip_bytes(cursor, -1, &key)
        || !skip_bytes(cursor, -1, &value) || !skip_headers(cursor) || cursor->at != cursor->stop)
        return 0;
    timestamp = (int64_t)((uint64_t)found->base + (uint64_t)delta);
    if (timestamp > found->max_timestamp)
        found->max_timestamp = timestamp;
    found->disordered += offset != index;
    if (found->needs_key && key < 0)
        found->keyless++;
    else if (timestamp != -1 && (timestamp < found->earliest || timestamp > found->latest))
        found->out_of_range++;
    if (found->seeks && timestamp >= found->least_timestamp && offset >= found->least_offset) {
        found->seeks = 0;
        found->timestamp = timestamp;
        found->offset = offset;
    }
    return 1;
}

/* Java takes a length that does not end for another fault than the rest. */
static int is_endless(const uint8_t *at, const uint8_t *end)
{
    int index;
    for (index = 0; index < 5; index++)
        if (at + index >= end || at[index] < 0x80)
            return 0;
    return 1;
}

int walk_records(const uint8_t *at, const uint8_t *end, int64_t count, Found *found)
{
    int64_t index, length;
    Cursor cursor;
    for (index = 0; index < count; index++) {
        cursor.at = at;
        cursor.stop = end;
        if (!read_varint(&cursor, 32, &length))
            return is_endless(at, end) ? ENDLESS_LENGTH : BROKEN;
        if (length < 0 || length > end - cursor.at || length > found->most_bytes)
            return BROKEN;
        at = cursor.stop = cursor.at + length;
        if (!walk_record(&cursor, index, found))
            return BROKEN;
    }
    return at == end ? WHOLE : BROKEN;
}
