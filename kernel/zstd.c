/* Zstandard by a library whose functions the caller names, since a system's own may be too old: version 1.5.4
 * accepts damaged frames that newer ones reject, and consumers may have newer ones.
 *
 * The context is kept, so that a batch costs no allocation. One thread at a time calls this: the one that holds the
 * interpreter's lock.
 */
#include "codecs.h"

typedef struct {
    void *context;
    size_t (*decompress)(void *context, void *out, size_t capacity, const void *data, size_t size);
    size_t (*frame_bytes)(const void *data, size_t size);
    unsigned (*is_error)(size_t code);
    int (*error_code)(size_t code);
} Library;

static Library library;

enum { MAGIC_BYTES = 4, DESTINATION_TOO_SMALL = 70 };
/* The frame header's descriptor: one segment without a window, an unused and a reserved bit, a dictionary's id. */
enum { SINGLE_SEGMENT = 0x20, REJECTED_BITS = 0x18 | 0x03 };
/* A window of 8 MB, exponent 13 over 1 KiB. All clients read it; streams of Java's library end at 128 MB. */
enum { MOST_WINDOW = 13 << 3 };

static const uint8_t MAGIC[MAGIC_BYTES] = {0x28, 0xb5, 0x2f, 0xfd};

int set_zstd_functions(const ZstdAddresses *addresses)
{
    void *(*create)(void) = (void *(*)(void))addresses->create;
    if (library.context != NULL) /* A context belongs to the library that created it. */
        return 1;
    library.decompress = (size_t(*)(void *, void *, size_t, const void *, size_t))addresses->decompress;
    library.frame_bytes = (size_t(*)(const void *, size_t))addresses->frame_bytes;
    library.is_error = (unsigned (*)(size_t))addresses->is_error;
    library.error_code = (int (*)(size_t))addresses->error_code;
    library.context = create();
    return library.context != NULL;
}

/* Whether every client reads the frame. The caller's library decompresses other frames. */
static int is_supported_frame(const uint8_t *data, size_t size)
{
    int index;
    if (size < MAGIC_BYTES + 2)
        return 0;
    for (index = 0; index < MAGIC_BYTES; index++)
        if (data[index] != MAGIC[index])
            return 0;
    if (data[MAGIC_BYTES] & REJECTED_BITS)
        return 0;
    return data[MAGIC_BYTES] & SINGLE_SEGMENT || data[MAGIC_BYTES + 1] <= MOST_WINDOW;
}

int64_t decompress_zstd(const uint8_t *data, size_t size, uint8_t *out, size_t capacity)
{
    size_t written;
    if (library.context == NULL)
        return NO_LIBRARY;
    if (!is_supported_frame(data, size) || library.frame_bytes(data, size) != size)
        return DAMAGED;
    written = library.decompress(library.context, out, capacity, data, size);
    if (library.is_error(written))
        return library.error_code(written) == DESTINATION_TOO_SMALL ? TOO_LARGE : DAMAGED;
    return (int64_t)written;
}
