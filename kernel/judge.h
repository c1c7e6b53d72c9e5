/* The first look at a produced batch. See judge.c. */
#ifndef ODRADEK_JUDGE_H
#define ODRADEK_JUDGE_H

#include <stddef.h>
#include <stdint.h>

enum { CODEC_NONE = 0, CODEC_GZIP = 1, CODEC_SNAPPY = 2, CODEC_LZ4 = 3, CODEC_ZSTD = 4 };

typedef struct {
    int64_t version;        /* of the Produce request */
    int64_t earliest;       /* timestamps that the topic allows */
    int64_t latest;
    int64_t most_record_bytes; /* of a record that was compressed */
    int64_t checked_codecs; /* a bit for each codec whose records are looked at */
    int64_t records_left;   /* more are walked by a thread */
    int64_t packed_left;    /* a larger payload is decompressed by a thread */
    int needs_key;
    uint8_t *room;          /* to decompress into */
    size_t room_bytes;
} Rules;

typedef struct {
    int64_t base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
        producer_id, producer_epoch, base_sequence, record_count;
} Header;

/* What is known of a batch that is not plainly good: others look closer. */
enum { NOT_PLAIN = -2, UNOPENED = -1 };

/* The bytes that a plainly good batch was decompressed to, 0 when it is not compressed; UNOPENED when all but its
 * records has been checked, as another library has its codec. The CRC is the caller's to check. */
int64_t judge(const uint8_t *batch, size_t size, const Rules *rules, Header *header);

#endif
