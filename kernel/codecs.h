/* Decompression of what producers send, to a buffer of the caller.
 *
 * Bytes come from strangers: no byte is read outside of the input or written outside of the room, whatever the input
 * claims. They return the number of bytes made, DAMAGED, or TOO_LARGE when the room is too small.
 */
#ifndef ODRADEK_CODECS_H
#define ODRADEK_CODECS_H

#include <stddef.h>
#include <stdint.h>

enum { DAMAGED = -1, TOO_LARGE = -2, NO_LIBRARY = -3 };

/* One lz4 frame of independent blocks, and nothing behind it. */
int64_t decompress_lz4(const uint8_t *data, size_t size, uint8_t *out, size_t room);

/* One raw snappy block, or the blocks of xerial's format, version 1. */
int64_t decompress_snappy(const uint8_t *data, size_t size, uint8_t *out, size_t room);

/* The addresses of libzstd's functions: ZSTD_createDCtx, ZSTD_decompressDCtx, ZSTD_findFrameCompressedSize, ZSTD_isError,
 * ZSTD_getErrorCode. */
typedef struct {
    uintptr_t create, decompress, frame_bytes, is_error, error_of;
} ZstdAddresses;

/* Has `decompress_zstd` use these functions from now on. 0 where there is no memory for a context. */
int use_zstd(const ZstdAddresses *addresses);

/* One zstd frame of the usual kind, and nothing behind it; DAMAGED for any other, NO_LIBRARY before `use_zstd`. The caller
 * holds the interpreter's lock. */
int64_t decompress_zstd(const uint8_t *data, size_t size, uint8_t *out, size_t room);

/* Has `decompress_gzip` use the functions of ISA-L that the shared library at `path` exports. 0 where it has none, or they
 * do not work as they are used here. */
int use_isal(const char *path);

/* One gzip member whose header has no options, and nothing behind it; DAMAGED for any other, NO_LIBRARY before `use_isal`.
 * The caller holds the interpreter's lock. */
int64_t decompress_gzip(const uint8_t *data, size_t size, uint8_t *out, size_t room);

/* Copies `length` bytes that start `offset` bytes before `out`, 0 < offset, as if byte by byte: they may overlap.
 * `slack`: bytes from `out` on that may be written, at least `length`. */
void copy_match(uint8_t *out, size_t offset, size_t length, size_t slack);

#endif
