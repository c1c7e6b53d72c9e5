/* Bloom filters of the keys of a segment (columns/key_filters.py).
 *
 * The hash and the number of its bits belong to the format of the files: another hash is another version. It is not secret:
 * who chooses keys can make a filter useless, but not wrong.
 */
#include "key_filter.h"

/* With half of the bits set, one in 128 absent keys passes. */
enum { HASHES = 7 };
#define FIRST_PRIME UINT64_C(0x9E3779B97F4A7C15)
#define SECOND_PRIME UINT64_C(0xFF51AFD7ED558CCD)
#define THIRD_PRIME UINT64_C(0xC4CEB9FE1A85EC53)

static uint64_t mixed(uint64_t number)
{
    number = (number ^ number >> 33) * SECOND_PRIME;
    number = (number ^ number >> 33) * THIRD_PRIME;
    return number ^ number >> 33;
}

/* The same on machines of either byte order. */
static uint64_t little_endian(const uint8_t *at, uint64_t count)
{
    uint64_t number = 0, index;
    for (index = 0; index < count; index++)
        number |= (uint64_t)at[index] << (8 * index);
    return number;
}

static uint64_t hash_of(const uint8_t *key, uint64_t size)
{
    uint64_t hash = size * FIRST_PRIME, at;
    for (at = 0; at + 8 <= size; at += 8)
        hash = mixed(hash ^ little_endian(key + at, 8)) + FIRST_PRIME;
    return mixed(hash ^ little_endian(key + at, size - at));
}

int mark_keys(uint8_t *bits, uint64_t size, const int32_t *ends, const uint8_t *validity, int64_t rows, const uint8_t *bytes,
              int64_t byte_count)
{
    uint64_t mask = size * 8 - 1;
    int64_t row;
    for (row = 0; row < rows; row++) {
        uint64_t hash, step;
        int index;
        if (ends[row] < 0 || ends[row + 1] < ends[row] || ends[row + 1] > byte_count)
            return 0;
        if (validity != 0 && !(validity[row >> 3] >> (row & 7) & 1))
            continue;
        hash = hash_of(bytes + ends[row], (uint64_t)(ends[row + 1] - ends[row]));
        step = hash >> 32 | 1;
        for (index = 0; index < HASHES; index++, hash += step)
            bits[(hash & mask) >> 3] |= (uint8_t)(1u << (hash & 7));
    }
    return 1;
}

int may_have_key(const uint8_t *bits, uint64_t size, const uint8_t *key, uint64_t key_size)
{
    uint64_t mask = size * 8 - 1, hash = hash_of(key, key_size), step = hash >> 32 | 1;
    int index;
    for (index = 0; index < HASHES; index++, hash += step)
        if (!(bits[(hash & mask) >> 3] >> (hash & 7) & 1))
            return 0;
    return 1;
}
