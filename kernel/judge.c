/* The first look at a produced batch: is it, but for its CRC, plainly good?
 *
 * server/partitions/plain_batches.py has the same look in Python. What it does not find good, batch_validation.py judges.
 */
#include "judge.h"

#include "codecs.h"
#include "records.h"

enum { HEADER_BYTES = 61, LOG_OVERHEAD = 12, MAGIC = 2, CODEC_BITS = 0x07, TRANSACTIONAL = 0x10 };

/* Produce requests before this version must not contain zstd (KIP-110). */
enum { FIRST_VERSION_WITH_ZSTD = 7 };

static uint64_t read_big(const uint8_t *at, int bytes)
{
    uint64_t number = 0;
    for (; bytes > 0; bytes--)
        number = number << 8 | *at++;
    return number;
}

static int64_t read_16(const uint8_t *at)
{
    return (int16_t)read_big(at, 2);
}

static int64_t read_32(const uint8_t *at)
{
    return (int32_t)read_big(at, 4);
}

static int64_t read_64(const uint8_t *at)
{
    return (int64_t)read_big(at, 8);
}

static void read_header(const uint8_t *at, Header *header)
{
    header->base_offset = read_64(at);
    header->length = read_32(at + 8);
    header->leader_epoch = read_32(at + 12);
    header->magic = (int8_t)at[16];
    header->crc = (int64_t)read_big(at + 17, 4);
    header->attributes = read_16(at + 21);
    header->last_offset_delta = read_32(at + 23);
    header->base_timestamp = read_64(at + 27);
    header->max_timestamp = read_64(at + 35);
    header->producer_id = read_64(at + 43);
    header->producer_epoch = read_16(at + 51);
    header->base_sequence = read_32(at + 53);
    header->record_count = read_32(at + 57);
}

static int is_plain(const Header *header, size_t size, int64_t version)
{
    int64_t codec = header->attributes & ~(int64_t)TRANSACTIONAL;
    return header->magic == MAGIC && header->base_offset == 0 && header->length == (int64_t)size - LOG_OVERHEAD
        && codec >= CODEC_NONE && codec <= CODEC_ZSTD && (codec != CODEC_ZSTD || version >= FIRST_VERSION_WITH_ZSTD)
        && header->record_count > 0 && header->record_count == header->last_offset_delta + 1
        && (header->producer_id < 0 || header->base_sequence >= 0);
}

typedef int64_t (*Decompressor)(const uint8_t *, size_t, uint8_t *, size_t);

static Decompressor decompressor(int64_t codec)
{
    switch (codec) {
    case CODEC_GZIP:
        return decompress_gzip;
    case CODEC_SNAPPY:
        return decompress_snappy;
    case CODEC_LZ4:
        return decompress_lz4;
    default:
        return decompress_zstd;
    }
}

int64_t judge(const uint8_t *batch, size_t size, const Rules *rules, Header *header)
{
    const uint8_t *payload = batch + HEADER_BYTES, *end = batch + size;
    int64_t codec, made = 0;
    Found found;
    if (size < HEADER_BYTES)
        return NOT_PLAIN;
    read_header(batch, header);
    if (!is_plain(header, size, rules->version))
        return NOT_PLAIN;
    codec = header->attributes & CODEC_BITS;
    if (!(rules->checked_codecs >> codec & 1))
        return header->max_timestamp <= rules->latest ? 0 : NOT_PLAIN;
    if (header->record_count > rules->records_left || (codec != CODEC_NONE && end - payload > rules->packed_left))
        return NOT_PLAIN;
    if (codec != CODEC_NONE) {
        made = decompressor(codec)(payload, (size_t)(end - payload), rules->room, rules->room_bytes);
        if (made < 0)
            return made == NO_LIBRARY ? UNOPENED : NOT_PLAIN;
        payload = rules->room;
        end = payload + made;
    }
    found = (Found){0};
    found.most_bytes = codec == CODEC_NONE ? INT32_MAX : rules->most_record_bytes;
    found.base = header->base_timestamp;
    found.earliest = rules->earliest;
    found.latest = rules->latest;
    found.needs_key = rules->needs_key;
    found.max_timestamp = -1;
    if (walk_records(payload, end, header->record_count, &found) != WHOLE || found.max_timestamp != header->max_timestamp
        || found.disordered || found.keyless || found.out_of_range)
        return NOT_PLAIN;
    return made;
}
