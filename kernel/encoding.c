/* Records of a batch of format 2 from rows of Arrow columns (KIP-98), and the partitions of keys.
 */
#include "encoding.h"

#include <string.h>


static inline uint64_t zigzag(int64_t number)
{
    return ((uint64_t)number << 1) ^ (number < 0 ? UINT64_MAX : 0);
}

static inline int64_t varint_size(int64_t number)
{
    uint64_t rest = zigzag(number);
    int64_t size = 1;
    for (; rest > 0x7F; rest >>= 7)
        size++;
    return size;
}

static inline uint8_t *put_varint(uint8_t *at, int64_t number)
{
    uint64_t rest = zigzag(number);
    for (; rest > 0x7F; rest >>= 7)
        *at++ = (uint8_t)(rest | 0x80);
    *at++ = (uint8_t)rest;
    return at;
}

/* Whether the column has the row, and its bytes. */
static inline int has_row(const Texts *texts, int64_t row)
{
    if (texts->ends == 0)
        return 1;
    return row >= 0 && row < texts->rows && texts->ends[row] >= 0 && texts->ends[row] <= texts->ends[row + 1]
           && texts->ends[row + 1] <= texts->byte_count;
}

/* The size of a row's bytes, -1 for null. */
static inline int64_t size_of(const Texts *texts, int64_t row)
{
    if (texts->ends == 0 || (texts->validity != 0 && !(texts->validity[row >> 3] >> (row & 7) & 1)))
        return -1;
    return (int64_t)texts->ends[row + 1] - texts->ends[row];
}

static inline int64_t encoded_size(int64_t size)
{
    return varint_size(size) + (size > 0 ? size : 0);
}

static inline uint8_t *put_text(uint8_t *at, const Texts *texts, int64_t row, int64_t size)
{
    at = put_varint(at, size);
    if (size > 0) {
        memcpy(at, texts->bytes + texts->ends[row], (size_t)size);
        at += size;
    }
    return at;
}

/* Keys of headers are never null: Kafka's format has no way to say so. */
static inline int64_t header_key_size(const SourceColumns *columns, int64_t pair)
{
    int64_t size = size_of(&columns->pair_keys, pair);
    return size > 0 ? size : 0;
}

/* Whether the columns have the row, with its headers. */
static int has_columns(const SourceColumns *columns, int64_t row)
{
    int64_t pair;
    if (row < 0 || !has_row(&columns->keys, row) || !has_row(&columns->values, row)
        || (columns->timestamps != 0 && row >= columns->timestamp_rows))
        return 0;
    if (columns->header_ends == 0)
        return 1;
    if (row >= columns->header_rows || columns->header_ends[row] < 0)
        return 0;
    for (pair = columns->header_ends[row]; pair < columns->header_ends[row + 1]; pair++)
        if (columns->pair_keys.ends == 0 || pair >= columns->pair_keys.rows || !has_row(&columns->pair_keys, pair)
            || !has_row(&columns->pair_values, pair))
            return 0;
    return columns->header_ends[row] <= columns->header_ends[row + 1];
}

static int64_t headers_size(const SourceColumns *columns, int64_t first, int64_t end)
{
    int64_t size = varint_size(end - first), pair;
    for (pair = first; pair < end; pair++)
        size += encoded_size(header_key_size(columns, pair)) + encoded_size(size_of(&columns->pair_values, pair));
    return size;
}

static uint8_t *put_headers(uint8_t *at, const SourceColumns *columns, int64_t first, int64_t end)
{
    int64_t pair;
    at = put_varint(at, end - first);
    for (pair = first; pair < end; pair++) {
        at = put_text(at, &columns->pair_keys, pair, header_key_size(columns, pair));
        at = put_text(at, &columns->pair_values, pair, size_of(&columns->pair_values, pair));
    }
    return at;
}

int64_t encode_rows(uint8_t *out, int64_t room, Payload *payload, const SourceColumns *columns, const int32_t *rows,
                    int64_t first, int64_t count, int64_t base_timestamp)
{
    int64_t index;
    for (index = first; index < count; index++) {
        int64_t row = rows[index], timestamp, delta, key_size, value_size, pair = 0, pair_end = 0, body, whole;
        uint8_t *at;
        if (!has_columns(columns, row))
            return -1;
        timestamp = columns->timestamps != 0 ? columns->timestamps[row] : base_timestamp;
        delta = (int64_t)((uint64_t)timestamp - (uint64_t)base_timestamp);
        key_size = size_of(&columns->keys, row);
        value_size = size_of(&columns->values, row);
        if (columns->header_ends != 0) {
            pair = columns->header_ends[row];
            pair_end = columns->header_ends[row + 1];
        }
        body = 1 + varint_size(delta) + varint_size(payload->records) + encoded_size(key_size) + encoded_size(value_size)
               + headers_size(columns, pair, pair_end);
        whole = varint_size(body) + body;
        if (whole > room - payload->size) {
            payload->needed = whole;
            break;
        }
        at = put_varint(out + payload->size, body);
        *at++ = 0; /* attributes */
        at = put_varint(at, delta);
        at = put_varint(at, payload->records);
        at = put_text(at, &columns->keys, row, key_size);
        at = put_text(at, &columns->values, row, value_size);
        put_headers(at, columns, pair, pair_end);
        payload->size += whole;
        if (payload->records == 0 || timestamp > payload->max_timestamp)
            payload->max_timestamp = timestamp;
        payload->records++;
    }
    return index - first;
}

/* Kafka's murmur2 of a key, as Java's producer has it (Utils.murmur2). */
static uint32_t murmur2(const uint8_t *key, uint32_t size)
{
    const uint32_t prime = 0x5BD1E995;
    uint32_t hash = 0x9747B28C ^ size, at = 0;
    for (; at + 4 <= size; at += 4) {
        uint32_t word = (uint32_t)key[at] | (uint32_t)key[at + 1] << 8 | (uint32_t)key[at + 2] << 16
                        | (uint32_t)key[at + 3] << 24;
        word *= prime;
        word ^= word >> 24;
        word *= prime;
        hash *= prime;
        hash ^= word;
    }
    if ((size & 3) > 2)
        hash ^= (uint32_t)key[at + 2] << 16;
    if ((size & 3) > 1)
        hash ^= (uint32_t)key[at + 1] << 8;
    if ((size & 3) > 0) {
        hash ^= (uint32_t)key[at];
        hash *= prime;
    }
    hash ^= hash >> 13;
    hash *= prime;
    return hash ^ hash >> 15;
}

/* The crc32 of zlib, half a byte at a time. */
static uint32_t crc32_of(const uint8_t *key, uint32_t size)
{
    static const uint32_t halves[16] = {
        0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
        0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C,
    };
    uint32_t hash = UINT32_MAX, at;
    for (at = 0; at < size; at++) {
        hash ^= key[at];
        hash = hash >> 4 ^ halves[hash & 15];
        hash = hash >> 4 ^ halves[hash & 15];
    }
    return ~hash;
}

int partitions_of_keys(int32_t *partitions, const Texts *keys, int64_t rows, int32_t partition_count, int kind)
{
    int64_t row;
    for (row = 0; row < rows; row++) {
        const uint8_t *key;
        int64_t size;
        if (!has_row(keys, row))
            return 0;
        size = size_of(keys, row);
        key = size > 0 ? keys->bytes + keys->ends[row] : 0;
        if (size < 0 || (size == 0 && kind == CRC_PARTITIONER))
            partitions[row] = NO_PARTITION;
        else if (kind == CRC_PARTITIONER)
            partitions[row] = (int32_t)(crc32_of(key, (uint32_t)size) % (uint32_t)partition_count);
        else
            partitions[row] = (int32_t)((murmur2(key, (uint32_t)size) & 0x7FFFFFFF) % (uint32_t)partition_count);
    }
    return 1;
}
