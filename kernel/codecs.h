/* Decompression of what producers send, to a buffer of the caller.
 *
 * Bytes come from strangers: no byte is read outside of the input or written outside of the room, whatever the input
 * claims. Both return the number of bytes made, DAMAGED, or TOO_LARGE when the room is too small.
 */
#ifndef ODRADEK_CODECS_H
#define ODRADEK_CODECS_H

#include <stddef.h>
#include <stdint.h>

enum { DAMAGED = -1, TOO_LARGE = -2 };

/* One lz4 frame of independent blocks, and nothing behind it. */
int64_t decompress_lz4(const uint8_t *data, size_t size, uint8_t *out, size_t room);

/* One raw snappy block, or the blocks of xerial's format, version 1. */
int64_t decompress_snappy(const uint8_t *data, size_t size, uint8_t *out, size_t room);

/* Copies `length` bytes that start `offset` bytes before `out`, 0 < offset, as if byte by byte: they may overlap.
 * `slack`: bytes from `out` on that may be written, at least `length`. */
void copy_match(uint8_t *out, size_t offset, size_t length, size_t slack);

#endif
