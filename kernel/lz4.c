/* The lz4 frame format (version 1.6.4) and the lz4 block format.
 *
 * What is accepted here, every client reads. So it is stricter than the formats: independent blocks, one frame, no
 * dictionary, no empty block before the end mark (Java takes that for the end mark), no match at offset 0 (decoders
 * disagree on its bytes). The conditions at the end of a block are those of liblz4.
 */
#include "codecs.h"

#include <string.h>

enum {
    LEAST_FRAME = 11, /* header without content size, end mark */
    BLOCK_CHECKSUMS = 0x10,
    CONTENT_SIZE = 0x08,
    CONTENT_CHECKSUM = 0x04,
    /* A match begins 12 bytes before the end of the capacity of a block, or more, and leaves 5 for literals. */
    MATCH_LIMIT = 12,
    LAST_LITERALS = 5,
    /* An offset, a token and the last literals follow literals that are not the last ones. */
    LEAST_BEHIND_LITERALS = 8,
    LEAST_BEHIND_MATCH_LENGTH = 4,
};

static const uint32_t STORED = 0x80000000u;

static uint32_t read_32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint32_t rotated(uint32_t number, int bits)
{
    return number << bits | number >> (32 - bits);
}

static const uint32_t PRIME_1 = 2654435761u, PRIME_2 = 2246822519u, PRIME_3 = 3266489917u, PRIME_4 = 668265263u,
                      PRIME_5 = 374761393u;

static uint32_t xxh32(const uint8_t *at, size_t size)
{
    const uint8_t *end = at + size;
    uint32_t hash = PRIME_5;
    if (size >= 16) {
        uint32_t lanes[4] = {PRIME_1 + PRIME_2, PRIME_2, 0, 0u - PRIME_1};
        for (; end - at >= 16; at += 16) {
            int lane;
            for (lane = 0; lane < 4; lane++)
                lanes[lane] = rotated(lanes[lane] + read_32(at + 4 * lane) * PRIME_2, 13) * PRIME_1;
        }
        hash = rotated(lanes[0], 1) + rotated(lanes[1], 7) + rotated(lanes[2], 12) + rotated(lanes[3], 18);
    }
    hash += (uint32_t)size;
    for (; end - at >= 4; at += 4)
        hash = rotated(hash + read_32(at) * PRIME_3, 17) * PRIME_4;
    for (; at < end; at++)
        hash = rotated(hash + *at * PRIME_5, 11) * PRIME_1;
    hash = (hash ^ hash >> 15) * PRIME_2;
    hash = (hash ^ hash >> 13) * PRIME_3;
    return hash ^ hash >> 16;
}

void copy_match(uint8_t *out, size_t offset, size_t length, size_t slack)
{
    const uint8_t *from = out - offset;
    if (offset >= 16 && slack - length >= 16) {
        size_t done;
        for (done = 0; done < length; done += 16)
            memcpy(out + done, from + done, 16);
    } else if (offset >= length) {
        memcpy(out, from, length);
    } else if (offset == 1) {
        memset(out, *from, length);
    } else {
        size_t done = 0, step = offset;
        /* Each copy doubles what can be copied without an overlap. */
        while (done < length) {
            size_t piece = length - done < step ? length - done : step;
            memcpy(out + done, from, piece);
            done += piece;
            step += piece;
        }
    }
}

/* Adds the bytes that continue a length; 0 when they do not end before `end`, or there are more than any block has. */
static int read_length(const uint8_t **at, const uint8_t *end, size_t *length)
{
    uint8_t byte;
    do {
        if (*at >= end)
            return 0;
        byte = *(*at)++;
        *length += byte;
    } while (byte == 255);
    return 1;
}

/* One block that is compressed. `capacity` is at most `most`, the largest block of the frame. */
static int64_t decode_block(const uint8_t *at, const uint8_t *end, uint8_t *out, size_t capacity, size_t most)
{
    const int too_large = capacity < most ? TOO_LARGE : DAMAGED;
    size_t written = 0;
    for (;;) {
        size_t length, offset;
        uint8_t token;
        if (at >= end)
            return DAMAGED;
        token = *at++;
        length = token >> 4;
        if (length == 15 && !read_length(&at, end, &length))
            return DAMAGED;
        if (length > (size_t)(end - at))
            return DAMAGED;
        if (length > capacity - written)
            return too_large;
        if (length <= 16 && end - at >= 16 && capacity - written >= 16)
            memcpy(out + written, at, 16);
        else
            memcpy(out + written, at, length);
        written += length;
        at += length;
        if (at == end)
            return (int64_t)written;
        if (end - at < LEAST_BEHIND_LITERALS || most - written < MATCH_LIMIT)
            return DAMAGED;
        offset = (size_t)at[0] | (size_t)at[1] << 8;
        at += 2;
        length = token & 15;
        if (length == 15 && (!read_length(&at, end, &length) || end - at < LEAST_BEHIND_MATCH_LENGTH))
            return DAMAGED;
        length += 4;
        if (offset == 0 || offset > written || length > most - written - LAST_LITERALS)
            return DAMAGED;
        if (length > capacity - written)
            return too_large;
        copy_match(out + written, offset, length, capacity - written);
        written += length;
    }
}

/* The header of the frame: its size, 0 when it is not one that every client reads. */
static size_t header_size(const uint8_t *data, size_t size)
{
    uint8_t flags, block;
    size_t end;
    if (size < LEAST_FRAME || read_32(data) != 0x184D2204u)
        return 0;
    flags = data[4];
    block = data[5];
    end = 7 + (flags & CONTENT_SIZE ? 8 : 0);
    if ((flags & 0xE3) != 0x60 || (block & 0x8F) != 0 || block < 0x40 || size < end + 4)
        return 0;
    return (uint8_t)(xxh32(data + 4, end - 5) >> 8) == data[end - 1] ? end : 0;
}

int64_t decompress_lz4(const uint8_t *data, size_t size, uint8_t *out, size_t capacity)
{
    const uint8_t *end, *at;
    size_t header = header_size(data, size), written = 0, largest;
    uint8_t flags;
    if (header == 0)
        return DAMAGED;
    at = data + header;
    end = data + size;
    flags = data[4];
    largest = (size_t)1 << (8 + 2 * (data[5] >> 4));
    for (;;) {
        uint32_t word;
        size_t length, left = capacity - written;
        int64_t block;
        if (end - at < 4)
            return DAMAGED;
        word = read_32(at);
        at += 4;
        if (word == 0)
            break;
        length = word & ~STORED;
        if (length == 0 || length > largest || length > (size_t)(end - at))
            return DAMAGED;
        if (word & STORED) {
            if (length > left)
                return TOO_LARGE;
            memcpy(out + written, at, length);
            block = (int64_t)length;
        } else {
            block = decode_block(at, at + length, out + written, left < largest ? left : largest, largest);
            if (block < 0)
                return block;
        }
        if (flags & BLOCK_CHECKSUMS) {
            if (end - at < (ptrdiff_t)length + 4 || xxh32(at, length) != read_32(at + length))
                return DAMAGED;
            at += 4;
        }
        at += length;
        written += (size_t)block;
    }
    if (flags & CONTENT_CHECKSUM) {
        if (end - at < 4 || xxh32(out, written) != read_32(at))
            return DAMAGED;
        at += 4;
    }
    if (flags & CONTENT_SIZE) {
        uint64_t content_size = (uint64_t)read_32(data + 10) << 32 | read_32(data + 6);
        /* Zero is an unknown size to liblz4. */
        if (content_size != 0 && content_size != written)
            return DAMAGED;
    }
    return at == end ? (int64_t)written : DAMAGED;
}
