/* gzip by ISA-L, whose functions are looked up in the module of the package `isal`.
 *
 * Only the first fields of ISA-L's state are used here (igzip_lib.h, version 2.31). `use_isal` decompresses a known member
 * before anything depends on their order. The state is kept, so that a batch costs no allocation. One thread at a time
 * calls this: the one that holds the interpreter's lock.
 */
#include "codecs.h"

#include <string.h>
#ifndef _WIN32
#include <dlfcn.h>
#endif

/* The beginning of `struct inflate_state`; 21 KiB of the rest hold the codes of one stream. */
typedef struct {
    uint8_t *out;
    uint32_t room, made;
    const uint8_t *in;
    uint64_t read_ahead;
    uint32_t left;
    int32_t read_ahead_bits;
} Stream;

/* The whole of it is 88 KiB in version 2.31. */
enum { STATE_BYTES = 256 << 10 };

typedef struct {
    void (*begin)(void *state);
    int (*inflate)(void *state);
    uint32_t (*crc32)(uint32_t before, const uint8_t *data, uint64_t size);
} Library;

static Library library;
static int is_usable;

static union {
    Stream stream;
    uint8_t bytes[STATE_BYTES];
} state;

/* Magic, method and no flags; then time, level and system, whatever they are. A CRC and a size at the end. */
enum { HEADER_BYTES = 10, TRAILER_BYTES = 8, CHECKED_HEADER_BYTES = 4, INFLATED = 0, NO_ROOM_LEFT = 2 };
static const uint8_t HEADER[CHECKED_HEADER_BYTES] = {0x1f, 0x8b, 8, 0};

static uint32_t read_little(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

int64_t decompress_gzip(const uint8_t *data, size_t size, uint8_t *out, size_t room)
{
    const uint8_t *trailer = data + size - TRAILER_BYTES;
    int result;
    if (!is_usable)
        return NO_LIBRARY;
    if (size < HEADER_BYTES + TRAILER_BYTES || size > UINT32_MAX || memcmp(data, HEADER, CHECKED_HEADER_BYTES) != 0)
        return DAMAGED;
    library.begin(&state);
    state.stream.in = data + HEADER_BYTES;
    state.stream.left = (uint32_t)(size - HEADER_BYTES - TRAILER_BYTES);
    state.stream.out = out;
    state.stream.room = room > UINT32_MAX ? UINT32_MAX : (uint32_t)room;
    result = library.inflate(&state);
    if (result == NO_ROOM_LEFT)
        return TOO_LARGE;
    if (result != INFLATED || state.stream.left != 0 || state.stream.made != read_little(trailer + 4)
        || library.crc32(0, out, state.stream.made) != read_little(trailer))
        return DAMAGED;
    return state.stream.made;
}

/* "odradek odradek odradek odradek\n" */
static const uint8_t KNOWN[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xff, 0xcb, 0x4f, 0x29, 0x4a, 0x4c, 0x49,
    0xcd, 0x56, 0xc8, 0xc7, 0x4e, 0x73, 0x01, 0x00, 0x6a, 0x8a, 0xe1, 0x17, 0x20, 0x00, 0x00, 0x00,
};
enum { KNOWN_SIZE = 32 };

int use_isal(const char *path)
{
#ifdef _WIN32
    (void)path;
#else
    uint8_t out[KNOWN_SIZE + 1];
    Library found;
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL)
        return 0;
    found.begin = (void (*)(void *))dlsym(module, "isal_inflate_init");
    found.inflate = (int (*)(void *))dlsym(module, "isal_inflate_stateless");
    found.crc32 = (uint32_t(*)(uint32_t, const uint8_t *, uint64_t))dlsym(module, "crc32_gzip_refl");
    if (found.begin == NULL || found.inflate == NULL || found.crc32 == NULL)
        return 0;
    library = found;
    is_usable = 1;
    is_usable = decompress_gzip(KNOWN, sizeof KNOWN, out, sizeof out) == KNOWN_SIZE
        && memcmp(out, "odradek odradek ", 16) == 0 && memcmp(out + 16, "odradek odradek\n", 16) == 0;
#endif
    return is_usable;
}
