/* Records of a batch from rows of Arrow columns, and the partitions of keys. See encoding.c. */
#ifndef ODRADEK_ENCODING_H
#define ODRADEK_ENCODING_H

#include <stdint.h>

/* A column of bytes: ends has one entry more than there are rows. Without validity no row is null, without ends each is. */
typedef struct {
    const int32_t *ends;
    const uint8_t *validity;
    const uint8_t *bytes;
    int64_t rows, byte_count;
} Texts;

/* The columns of rows. Without timestamps all have `base_timestamp`; without `header_ends` none has headers. */
typedef struct {
    const int64_t *timestamps;
    int64_t timestamp_rows;
    Texts keys, values;
    const int32_t *header_ends; /* of the pairs of a row */
    int64_t header_rows;
    Texts pair_keys, pair_values;
} SourceColumns;

/* What a batch has so far: bytes of its payload, records, the least room that the next record needs, the largest timestamp. */
typedef struct {
    int64_t size, records, needed, max_timestamp;
} Payload;

/* Appends the records of rows[first:count] until one has no room in `out`. Returns the number of rows that were appended, -1 for
 * a row outside of the columns, or whose bytes are. */
int64_t encode_rows(uint8_t *out, int64_t room, Payload *payload, const SourceColumns *columns, const int32_t *rows,
                    int64_t first, int64_t count, int64_t base_timestamp);

enum { JAVA_PARTITIONER, CRC_PARTITIONER, NO_PARTITION = -1 };

/* The partition of each key; NO_PARTITION for a null key, and for an empty one where crc32 is the hash (librdkafka). Returns 0
 * for ends that do not lie within the bytes. */
int partitions_of_keys(int32_t *partitions, const Texts *keys, int64_t rows, int32_t partition_count, int kind);

#endif
