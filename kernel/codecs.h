/* Decompression of what producers send, to a buffer of the caller.
 *
 * The input is untrusted: no function reads a byte outside of the input or writes one outside of `out`, whatever the input
 * claims. Each returns the number of bytes written, DAMAGED, or TOO_LARGE when `capacity` is too small.
 */
#ifndef ODRADEK_CODECS_H
#define ODRADEK_CODECS_H

#include <stddef.h>
#include <stdint.h>

enum { DAMAGED = -1, TOO_LARGE = -2, NO_LIBRARY = -3 };

/* One lz4 frame of independent blocks, and nothing after it. */
int64_t decompress_lz4(const uint8_t *data, size_t size, uint8_t *out, size_t capacity);

/* One raw snappy block, or the blocks of xerial's format, version 1. */
int64_t decompress_snappy(const uint8_t *data, size_t size, uint8_t *out, size_t capacity);

/* The addresses of libzstd's functions: ZSTD_createDCtx, ZSTD_decompressDCtx, ZSTD_findFrameCompressedSize, ZSTD_isError,
 * ZSTD_getErrorCode. */
typedef struct {
    uintptr_t create, decompress, frame_bytes, is_error, error_code;
} ZstdAddresses;

/* Makes `decompress_zstd` call these functions, the first ones that are set. Returns 0 without memory for a context. */
int set_zstd_functions(const ZstdAddresses *addresses);

/* One zstd frame that every client reads, and nothing after it; DAMAGED for any other, NO_LIBRARY before
 * `set_zstd_functions`. The caller holds the interpreter's lock. */
int64_t decompress_zstd(const uint8_t *data, size_t size, uint8_t *out, size_t capacity);

/* Makes `decompress_gzip` call ISA-L's functions in the shared library at `path`. Returns 0 if the library lacks them, has
 * another layout, or is not the one loaded first. */
int load_isal(const char *path);

/* One gzip member whose header has no options, and nothing after it; DAMAGED for any other, NO_LIBRARY before `load_isal`.
 * The caller holds the interpreter's lock. */
int64_t decompress_gzip(const uint8_t *data, size_t size, uint8_t *out, size_t capacity);

/* Copies `length` bytes that start `offset` bytes before `out`, 0 < offset, as if byte by byte: they may overlap.
 * `slack`: bytes from `out` on that may be written, at least `length`. */
void copy_match(uint8_t *out, size_t offset, size_t length, size_t slack);

#endif
