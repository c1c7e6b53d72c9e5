/* The validation of a produced batch in one pass, without its CRC.
 *
 * server/partitions/plain_batches.py has the same validation in Python. The complete validation (batch_validation.py)
 * decides on every batch that is not accepted here.
 */
#include "validation.h"

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

static void read_header(const uint8_t *at, BatchHeader *header)
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

static int is_valid_header(const BatchHeader *header, size_t size, int64_t version)
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

static int has_valid_records(const uint8_t *at, const uint8_t *end, const BatchHeader *header, const BatchRules *rules)
{
    RecordScan scan = {0};
    scan.max_record_bytes = (header->attributes & CODEC_BITS) == CODEC_NONE ? INT32_MAX : rules->max_record_bytes;
    scan.base_timestamp = header->base_timestamp;
    scan.earliest = rules->earliest_timestamp;
    scan.latest = rules->latest_timestamp;
    scan.needs_key = rules->needs_key;
    scan.max_timestamp = -1;
    return walk_records(at, end, header->record_count, &scan) == WHOLE && scan.max_timestamp == header->max_timestamp
        && !scan.disordered && !scan.keyless && !scan.out_of_range;
}

int64_t validate_batch(const uint8_t *batch, size_t size, const BatchRules *rules, BatchHeader *header)
{
    const uint8_t *payload;
    size_t payload_bytes;
    int64_t codec, written;
    if (size < HEADER_BYTES)
        return NOT_ACCEPTED;
    payload = batch + HEADER_BYTES;
    payload_bytes = size - HEADER_BYTES;
    read_header(batch, header);
    if (!is_valid_header(header, size, rules->version))
        return NOT_ACCEPTED;
    codec = header->attributes & CODEC_BITS;
    if (!(rules->checked_codecs >> codec & 1))
        return header->max_timestamp <= rules->latest_timestamp ? 0 : NOT_ACCEPTED;
    if (header->record_count > rules->max_records)
        return NOT_ACCEPTED;
    if (codec == CODEC_NONE)
        return has_valid_records(payload, payload + payload_bytes, header, rules) ? 0 : NOT_ACCEPTED;
    if ((int64_t)payload_bytes > rules->max_compressed_bytes)
        return NOT_ACCEPTED;
    written = decompressor(codec)(payload, payload_bytes, rules->scratch, rules->scratch_bytes);
    if (written < 0)
        return written == NO_LIBRARY ? RECORDS_UNCHECKED : NOT_ACCEPTED;
    return has_valid_records(rules->scratch, rules->scratch + written, header, rules) ? written : NOT_ACCEPTED;
}

int64_t saturating_add(int64_t left, int64_t right)
{
    if (right > 0 && left > INT64_MAX - right)
        return INT64_MAX;
    if (right < 0 && left < INT64_MIN - right)
        return INT64_MIN;
    return left + right;
}

int64_t saturating_subtract(int64_t left, int64_t right)
{
    if (right > 0 && left < INT64_MIN + right)
        return INT64_MIN;
    if (right < 0 && left > INT64_MAX + right)
        return INT64_MAX;
    return left - right;
}
