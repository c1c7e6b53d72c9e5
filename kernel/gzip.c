/* gzip by ISA-L, whose functions are looked up in the shared library of the Python package `isal`.
 *
 * ISA-L's header is not needed for a build, so InflateState repeats the first fields of its `struct inflate_state`
 * (igzip_lib.h, versions 2.31 and 2.32). `load_isal` checks the layout of the loaded library before anything is written to
 * or read from these fields, and codecs.py checks the version of the package before that. A library with another layout is
 * not used. The state is kept, so that a batch costs no allocation. One thread at a time calls this: the one that holds the
 * interpreter's lock.
 */
#include "codecs.h"

#include <string.h>
#ifndef _WIN32
#include <dlfcn.h>
#endif

/* The names are ISA-L's. */
typedef struct {
    uint8_t *next_out;
    uint32_t avail_out, total_out;
    const uint8_t *next_in;
    uint64_t read_in;
    uint32_t avail_in;
    int32_t read_in_length;
} InflateState;

enum {
    /* The size of `struct inflate_state` is 88 KiB in version 2.31. */
    STATE_BYTES = 256 << 10,
    /* `isal_inflate_init` clears these bytes and writes no other: the fields of InflateState, and those that follow 21 KiB
     * of code tables. */
    HEAD_BYTES = 40,
    TAIL_START = 21160,
    TAIL_END = 21216,
    FILL = 0xA5,
};

typedef struct {
    void (*init)(void *state);
    int (*inflate)(void *state);
    uint32_t (*crc32)(uint32_t before, const uint8_t *data, uint64_t size);
} IsalFunctions;

static IsalFunctions isal;

static union {
    InflateState fields;
    uint8_t bytes[STATE_BYTES];
} state;

/* Magic, method and no flags; then time, level and system, which are ignored. A CRC and a size at the end. */
enum { HEADER_BYTES = 10, TRAILER_BYTES = 8, CHECKED_HEADER_BYTES = 4 };
/* ISA-L's codes. */
enum { ISAL_DECOMP_OK = 0, ISAL_OUT_OVERFLOW = 2 };
static const uint8_t HEADER[CHECKED_HEADER_BYTES] = {0x1f, 0x8b, 8, 0};

static uint32_t read_little_endian(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static int64_t decompress_by(const IsalFunctions *by, const uint8_t *data, size_t size, uint8_t *out, size_t capacity)
{
    const uint8_t *trailer;
    uint32_t written;
    int result;
    if (size < HEADER_BYTES + TRAILER_BYTES || size > UINT32_MAX || memcmp(data, HEADER, CHECKED_HEADER_BYTES) != 0)
        return DAMAGED;
    trailer = data + (size - TRAILER_BYTES);
    by->init(&state);
    state.fields.next_in = data + HEADER_BYTES;
    state.fields.avail_in = (uint32_t)(size - HEADER_BYTES - TRAILER_BYTES);
    state.fields.next_out = out;
    state.fields.avail_out = capacity > UINT32_MAX ? UINT32_MAX : (uint32_t)capacity;
    result = by->inflate(&state);
    if (result == ISAL_OUT_OVERFLOW)
        return TOO_LARGE;
    written = state.fields.total_out;
    if (result != ISAL_DECOMP_OK || written > capacity || state.fields.avail_in != 0
        || written != read_little_endian(trailer + 4) || by->crc32(0, out, written) != read_little_endian(trailer))
        return DAMAGED;
    return written;
}

int64_t decompress_gzip(const uint8_t *data, size_t size, uint8_t *out, size_t capacity)
{
    return isal.init == NULL ? NO_LIBRARY : decompress_by(&isal, data, size, out, capacity);
}

/* Whether the library clears exactly the bytes that the known layout has it clear. */
static int has_known_layout(const IsalFunctions *candidate)
{
    size_t at;
    if (sizeof(InflateState) != HEAD_BYTES)
        return 0;
    memset(state.bytes, FILL, STATE_BYTES);
    candidate->init(&state);
    for (at = 0; at < STATE_BYTES; at++) {
        int is_cleared = at < HEAD_BYTES || (at >= TAIL_START && at < TAIL_END);
        if (state.bytes[at] != (is_cleared ? 0 : FILL))
            return 0;
    }
    return 1;
}

/* A member with KNOWN_TEXT. */
static const uint8_t KNOWN_MEMBER[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xff, 0xcb, 0x4f, 0x29, 0x4a, 0x4c, 0x49,
    0xcd, 0x56, 0xc8, 0xc7, 0x4e, 0x73, 0x01, 0x00, 0x6a, 0x8a, 0xe1, 0x17, 0x20, 0x00, 0x00, 0x00,
};
static const char KNOWN_TEXT[] = "odradek odradek odradek odradek\n";
enum { KNOWN_SIZE = sizeof KNOWN_TEXT - 1 };

/* Whether the library decompresses a known member, and leaves each field with its expected value. */
static int decompresses_known_member(const IsalFunctions *candidate)
{
    uint8_t out[KNOWN_SIZE + 1];
    int64_t written = decompress_by(candidate, KNOWN_MEMBER, sizeof KNOWN_MEMBER, out, sizeof out);
    return written == KNOWN_SIZE && memcmp(out, KNOWN_TEXT, KNOWN_SIZE) == 0 && state.fields.next_out == out + KNOWN_SIZE
        && state.fields.avail_out == 1 && state.fields.next_in == KNOWN_MEMBER + (sizeof KNOWN_MEMBER - TRAILER_BYTES);
}

int load_isal(const char *path)
{
#ifdef _WIN32
    (void)path;
    return 0;
#else
    IsalFunctions candidate;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return 0;
    candidate.init = (void (*)(void *))dlsym(library, "isal_inflate_init");
    candidate.inflate = (int (*)(void *))dlsym(library, "isal_inflate_stateless");
    candidate.crc32 = (uint32_t(*)(uint32_t, const uint8_t *, uint64_t))dlsym(library, "crc32_gzip_refl");
    if (candidate.init == NULL || candidate.inflate == NULL || candidate.crc32 == NULL || !has_known_layout(&candidate)
        || !decompresses_known_member(&candidate) || isal.init != NULL) {
        int is_same = isal.init != NULL && candidate.init == isal.init;
        dlclose(library);
        return is_same;
    }
    isal = candidate;
    return 1;
#endif
}
