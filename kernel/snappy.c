/* Snappy's raw format, and xerial's (of Java): blocks behind a magic number and two versions.
 *
 * Xerial's version must be 1: Java accepts compatible later versions, and aiokafka reads them as a raw block.
 */
#include "codecs.h"

#include <string.h>

static const uint8_t XERIAL_HEADER[16] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1};

enum {
    XERIAL_MAGIC_BYTES = 8,
    /* An element of two bytes yields at most 64: a block that claims more has a wrong size. */
    GREATEST_RATIO = 32,
};

/* The size that a block claims: a varint of 32 bits. Returns its bytes, 0 when it does not end. */
static int read_size(const uint8_t *at, size_t size, uint64_t *claimed)
{
    int index;
    *claimed = 0;
    for (index = 0; index < 5 && (size_t)index < size; index++) {
        *claimed |= (uint64_t)(at[index] & 0x7F) << (7 * index);
        if (at[index] < 0x80)
            return *claimed <= UINT32_MAX ? index + 1 : 0;
    }
    return 0;
}

/* The length of a literal, whose tag has been read; 0 when its bytes are not there. */
static size_t literal_length(const uint8_t **at, const uint8_t *end, uint8_t tag)
{
    size_t length = (size_t)(tag >> 2) + 1;
    if (length > 60) {
        int index, more = (int)length - 60;
        if (end - *at < more)
            return 0;
        for (length = 0, index = 0; index < more; index++)
            length |= (size_t)(*at)[index] << (8 * index);
        *at += more;
        length++;
    }
    return length <= (size_t)(end - *at) ? length : 0;
}

/* The length of a copy, whose tag has been read; 0 when its bytes are not there. */
static size_t copy_length(const uint8_t **at, const uint8_t *end, uint8_t tag, size_t *offset)
{
    int index, kind = tag & 3, more = kind == 3 ? 4 : kind;
    if (end - *at < more)
        return 0;
    for (*offset = 0, index = 0; index < more; index++)
        *offset |= (size_t)(*at)[index] << (8 * index);
    *at += more;
    if (kind != 1)
        return (size_t)(tag >> 2) + 1;
    *offset |= (size_t)(tag >> 5) << 8;
    return (size_t)((tag >> 2) & 7) + 4;
}

static int64_t decode_block(const uint8_t *at, size_t size, uint8_t *out, size_t capacity)
{
    const uint8_t *end = at + size;
    uint64_t claimed;
    size_t written = 0, wanted;
    int header = read_size(at, size, &claimed);
    if (header == 0 || claimed > (uint64_t)size * GREATEST_RATIO)
        return DAMAGED;
    if (claimed > capacity)
        return TOO_LARGE;
    wanted = (size_t)claimed;
    at += header;
    while (at < end) {
        uint8_t tag = *at++;
        size_t length, offset;
        if ((tag & 3) == 0) {
            length = literal_length(&at, end, tag);
            if (length == 0 || length > wanted - written)
                return DAMAGED;
            if (length <= 16 && end - at >= 16 && capacity - written >= 16)
                memcpy(out + written, at, 16);
            else
                memcpy(out + written, at, length);
            at += length;
        } else {
            length = copy_length(&at, end, tag, &offset);
            if (length == 0 || offset == 0 || offset > written || length > wanted - written)
                return DAMAGED;
            copy_match(out + written, offset, length, capacity - written);
        }
        written += length;
    }
    return written == wanted ? (int64_t)written : DAMAGED;
}

int64_t decompress_snappy(const uint8_t *data, size_t size, uint8_t *out, size_t capacity)
{
    const uint8_t *at, *end;
    size_t written = 0;
    if (size < XERIAL_MAGIC_BYTES || memcmp(data, XERIAL_HEADER, XERIAL_MAGIC_BYTES) != 0)
        return decode_block(data, size, out, capacity);
    if (size < sizeof XERIAL_HEADER || memcmp(data, XERIAL_HEADER, sizeof XERIAL_HEADER) != 0)
        return DAMAGED;
    at = data + sizeof XERIAL_HEADER;
    end = data + size;
    while (at < end) {
        uint32_t length;
        int64_t block;
        if (end - at < 4)
            return DAMAGED;
        length = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
        at += 4;
        if (length > (size_t)(end - at))
            return DAMAGED;
        block = decode_block(at, length, out + written, capacity - written);
        if (block < 0)
            return block;
        written += (size_t)block;
        at += length;
    }
    return (int64_t)written;
}
