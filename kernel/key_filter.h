/* Bloom filters of the keys of a segment. See key_filter.c. */
#ifndef ODRADEK_KEY_FILTER_H
#define ODRADEK_KEY_FILTER_H

#include <stdint.h>

/* Sets the bits of each row's key; rows without a key have none. `size` is a power of two; the ends have rows + 1 entries.
 * Returns 0 for ends that do not ascend within the bytes. */
int mark_keys(uint8_t *bits, uint64_t size, const int32_t *ends, const uint8_t *validity, int64_t rows, const uint8_t *bytes,
              int64_t byte_count);

/* Whether the filter may have the key: 0 is certain. */
int may_have_key(const uint8_t *bits, uint64_t size, const uint8_t *key, uint64_t key_size);

#endif
