/* The validation of a produced batch in one pass. See validation.c. */
#ifndef ODRADEK_VALIDATION_H
#define ODRADEK_VALIDATION_H

#include <stddef.h>
#include <stdint.h>

enum { CODEC_NONE = 0, CODEC_GZIP = 1, CODEC_SNAPPY = 2, CODEC_LZ4 = 3, CODEC_ZSTD = 4 };

typedef struct {
    int64_t version;               /* of the Produce request */
    int64_t earliest_timestamp;    /* that the topic allows */
    int64_t latest_timestamp;
    int64_t max_record_bytes;      /* of a record in a compressed batch */
    int64_t checked_codecs;        /* a bit for each codec whose records are validated */
    int64_t max_records;           /* a thread validates batches with more */
    int64_t max_compressed_bytes;  /* a thread decompresses larger payloads */
    int needs_key;
    uint8_t *scratch;              /* receives the decompressed payload */
    size_t scratch_bytes;
} BatchRules;

typedef struct {
    int64_t base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
        producer_id, producer_epoch, base_sequence, record_count;
} BatchHeader;

/* NOT_ACCEPTED: the complete validation in Python decides. RECORDS_UNCHECKED: the header is valid, and another library has
 * to decompress the records. */
enum { NOT_ACCEPTED = -2, RECORDS_UNCHECKED = -1 };

/* Returns the size of the decompressed records of a valid batch (0 for an uncompressed one), or one of the two codes above.
 * The caller checks the CRC. */
int64_t validate_batch(const uint8_t *batch, size_t size, const BatchRules *rules, BatchHeader *header);

/* Sum and difference, limited to the range of 64 bits. */
int64_t saturating_add(int64_t left, int64_t right);
int64_t saturating_subtract(int64_t left, int64_t right);

#endif
