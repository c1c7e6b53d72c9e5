/* A fuzzer of the kernel, built with AddressSanitizer and UndefinedBehaviorSanitizer by sanitized.py.
 *
 *     fuzz SEED FIRST INPUTS SECONDS CORPUS ISAL    (the arguments of `main`, which Python calls)
 *
 * Mutates entries of the corpus (a byte for the kind, four for the size in big endian, the bytes) and calls the function of
 * their kind. Input and output are allocated with their exact sizes, so that a sanitizer detects each access outside. Each
 * input depends on the seed and its number only: when a sanitizer ends the process, the number is printed.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../kernel/codecs.h"
#include "../../kernel/columns.h"
#include "../../kernel/key_filter.h"
#include "../../kernel/records.h"
#include "../../kernel/small_log.h"
#include "../../kernel/validation.h"

enum { LZ4, SNAPPY, GZIP, ZSTD, RECORDS, BATCH, SMALL_LOG, FOLDER, COLUMNS, KINDS };
static const char *const NAMES[KINDS] = {"lz4", "snappy", "gzip", "zstd", "records", "batch", "small_log", "folder", "columns"};
enum { LARGEST_INPUT = 1 << 20, LARGEST_OUTPUT = 1 << 16, GUARD_BYTES = 64, GUARD = 0xA5, BATCH_HEADER = 61 };

typedef struct {
    int kind;
    size_t size;
    const uint8_t *bytes;
} Entry;

static Entry *entries;
static size_t entry_count;
static unsigned long long input_number;
static uint64_t random_state;

void __sanitizer_set_death_callback(void (*callback)(void));

static void print_input_number(void)
{
    fprintf(stderr, "the input with number %llu failed\n", input_number);
}

/* UBSan aborts. */
static void handle_abort(int signal_number)
{
    (void)signal_number;
    print_input_number();
    _exit(1);
}

static void fail(const char *why)
{
    fprintf(stderr, "%s\n", why);
    print_input_number();
    exit(1);
}

/* SplitMix64. */
static uint64_t random_bits(void)
{
    uint64_t bits = random_state += 0x9E3779B97F4A7C15u;
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
    return bits ^ bits >> 31;
}

static size_t below(size_t limit)
{
    return (size_t)(random_bits() % limit);
}

static uint32_t read_big_endian(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
}

static void load_corpus(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t size, at = 0;
    uint8_t *bytes = malloc(64u << 20);
    if (file == NULL || bytes == NULL)
        fail("the corpus cannot be read");
    size = fread(bytes, 1, 64u << 20, file);
    fclose(file);
    entries = calloc(size / 5 + 1, sizeof *entries);
    while (size - at >= 5) {
        entries[entry_count].kind = bytes[at];
        entries[entry_count].size = read_big_endian(bytes + at + 1);
        entries[entry_count].bytes = bytes + at + 5;
        at += 5 + entries[entry_count++].size;
    }
    if (at != size || entry_count == 0)
        fail("the corpus is not complete");
}

/* Values that lengths, offsets and tags have at their limits. */
static uint8_t edge_byte(void)
{
    static const uint8_t edges[] = {0, 1, 2, 15, 16, 0x1F, 0x7F, 0x80, 0x81, 0xC2, 0xF0, 0xFE, 0xFF};
    return below(3) ? edges[below(sizeof edges)] : (uint8_t)random_bits();
}

static size_t mutate_once(uint8_t *data, size_t size)
{
    size_t at = below(2) ? below(size + 1) : below((size < 80 ? size : 80) + 1), count = 1 + below(below(4) ? 8 : 60);
    size_t index;
    if (count > size - at)
        count = size - at;
    switch (below(6)) {
    case 0: /* removes */
        memmove(data + at, data + at + count, size - at - count);
        return size - count;
    case 1: /* inserts copied or random bytes */
        count = 1 + below(8);
        if (size + count > LARGEST_INPUT)
            return size;
        memmove(data + at + count, data + at, size - at);
        for (index = 0; index < count; index++)
            data[at + index] = edge_byte();
        return size + count;
    case 2: /* copies from elsewhere in the input */
        if (size > count)
            memmove(data + at, data + below(size - count + 1), count);
        return size;
    case 3: /* cuts the end */
        return below(8) ? size : at;
    case 4:
        if (at < size)
            data[at] ^= (uint8_t)(1u << below(8));
        return size;
    default:
        for (index = 0; index < count && index < 4; index++)
            data[at + index] = edge_byte();
        return size;
    }
}

static size_t mutate(const Entry *entry, uint8_t *data)
{
    size_t size = entry->size, count = below(5);
    memcpy(data, entry->bytes, size);
    for (; count > 0; count--)
        size = mutate_once(data, size);
    if (entry->kind == BATCH && size >= BATCH_HEADER && below(10)) {
        uint32_t length = (uint32_t)size - 12;
        data[8] = (uint8_t)(length >> 24), data[9] = (uint8_t)(length >> 16);
        data[10] = (uint8_t)(length >> 8), data[11] = (uint8_t)length;
    }
    return size;
}

static int64_t random_number(void)
{
    static const int64_t edges[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT32_MAX, INT64_MAX - 1, INT64_MAX, 1700000000000};
    return below(3) ? edges[below(sizeof edges / sizeof edges[0])] : (int64_t)(random_bits() >> below(64));
}

static size_t random_capacity(void)
{
    return below(3) ? LARGEST_OUTPUT : below(2) ? below(300) : below(LARGEST_OUTPUT);
}

typedef int64_t (*Decompressor)(const uint8_t *, size_t, uint8_t *, size_t);

/* The libraries' own code is not instrumented: bytes after the output detect what they write there. */
static int decompress_in_guards(Decompressor decompress, const uint8_t *data, size_t size)
{
    size_t capacity = random_capacity(), index;
    uint8_t *out = malloc(capacity + GUARD_BYTES);
    int64_t written;
    memset(out + capacity, GUARD, GUARD_BYTES);
    written = decompress(data, size, out, capacity);
    for (index = 0; index < GUARD_BYTES; index++)
        if (out[capacity + index] != GUARD)
            fail("a library wrote after the output");
    if (written > (int64_t)capacity || written < TOO_LARGE)
        fail("the result is no size and no code");
    free(out);
    return written >= 0;
}

static int decompress_exactly(Decompressor decompress, const uint8_t *data, size_t size)
{
    size_t capacity = random_capacity();
    uint8_t *out = malloc(capacity ? capacity : 1);
    int64_t written = decompress(data, size, out, capacity);
    if (written > (int64_t)capacity || written < TOO_LARGE)
        fail("the result is no size and no code");
    free(out);
    return written >= 0;
}

static int walk(const uint8_t *data, size_t size)
{
    RecordScan scan = {0};
    static const int64_t counts[] = {1, 2, 9, 200}; /* of the corpus */
    int64_t count = below(4) ? counts[below(4)] : random_number();
    scan.max_record_bytes = below(2) ? INT32_MAX : (int64_t)below(300);
    scan.base_timestamp = random_number();
    scan.earliest = random_number();
    scan.latest = random_number();
    scan.needs_key = (int)below(2);
    scan.is_searching = (int)below(2);
    scan.least_timestamp = random_number();
    scan.least_offset = random_number();
    scan.max_timestamp = -1;
    return walk_records(data, data + size, count, &scan) == WHOLE;
}

static int validate(const uint8_t *data, size_t size)
{
    BatchRules rules = {0};
    BatchHeader header;
    int64_t now = random_number(), before = random_number(), after = random_number(), result;
    size_t capacity = below(4) ? LARGEST_OUTPUT : random_capacity();
    int is_usual = below(2) == 0;
    uint8_t *scratch = malloc(capacity ? capacity : 1);
    rules.version = (int64_t)below(14);
    rules.earliest_timestamp = is_usual ? INT64_MIN : saturating_subtract(now, before);
    rules.latest_timestamp = is_usual ? INT64_MAX : saturating_add(now, after);
    rules.max_record_bytes = is_usual ? INT32_MAX : random_number();
    rules.checked_codecs = below(4) ? 0x1F : (int64_t)below(32);
    rules.max_records = is_usual ? 1000 : random_number();
    rules.max_compressed_bytes = is_usual ? INT32_MAX : random_number();
    rules.needs_key = below(8) == 0;
    rules.scratch = scratch;
    rules.scratch_bytes = capacity;
    result = validate_batch(data, size, &rules, &header);
    if (result > (int64_t)capacity || result < NOT_ACCEPTED)
        fail("the result is no size and no code");
    free(scratch);
    return result >= 0;
}

/* Memory with exactly this size, which the caller frees. */
static void *exactly(size_t size)
{
    return malloc(size ? size : 1);
}

static void mark_and_search(const RecordColumns *columns, int64_t rows, int64_t key_bytes)
{
    static uint8_t filter[64];
    if (!mark_keys(filter, sizeof filter, columns->keys.ends, columns->keys.validity, rows, columns->keys.bytes, key_bytes))
        fail("the ends of the keys do not ascend");
    for (int64_t row = 0; row < rows; row++) {
        int32_t first = columns->keys.ends[row], end = columns->keys.ends[row + 1];
        if ((columns->keys.validity[row >> 3] >> (row & 7) & 1)
            && !may_have_key(filter, sizeof filter, columns->keys.bytes + first, (uint64_t)(end - first)))
            fail("the filter lacks a key");
    }
}

/* A batch: its headers as rows, its records as columns, its keys in a filter. */
static int make_columns(const uint8_t *data, size_t size)
{
    static const int64_t counts[] = {1, 2, 9, 200}; /* of the corpus */
    const int64_t rows = below(3) ? 200 : (int64_t)below(20), pairs = (int64_t)below(20), heads = (int64_t)below(3);
    const int64_t key_room = (int64_t)(below(3) ? size : below(100)), room = (int64_t)(below(3) ? size : below(300));
    int64_t *head_rows = exactly((size_t)heads * ROW_NUMBERS * 8), *numbers = exactly((size_t)rows * 16), totals[TOTAL_NUMBERS];
    int32_t *ends = exactly((size_t)(3 * (rows + 1) + rows + 2 * (pairs + 1)) * 4);
    uint8_t *bits = exactly((size_t)(2 * ((rows + 7) / 8) + (pairs + 7) / 8)), *keys = exactly((size_t)key_room), fault = 0;
    uint8_t *values = exactly((size_t)room), *pair_keys = exactly((size_t)key_room), *pair_values = exactly((size_t)room);
    int64_t batch[BATCH_NUMBERS] = {below(8) ? BATCH_HEADER : random_number(), below(8) ? (int64_t)size : random_number(), 7,
                                    below(4) ? INT32_MAX : random_number(), random_number(), random_number(),
                                    (int64_t)below(2), below(8) ? counts[below(4)] : random_number()};
    int64_t bounds[BOUND_NUMBERS] = {below(3) ? 0 : random_number(), below(3) ? INT64_MAX : random_number(),
                                     below(3) ? INT64_MIN : random_number(), below(3) ? INT64_MAX : random_number()};
    RecordColumns columns = {rows, numbers, numbers + rows, ends + 3 * (rows + 1),
                             {ends, bits, keys, key_room}, {ends + rows + 1, bits + (rows + 7) / 8, values, room},
                             ends + 2 * (rows + 1), pairs, ends + 3 * (rows + 1) + rows, bits + 2 * ((rows + 7) / 8),
                             pair_keys, pair_values, key_room, room};
    const int64_t wanted = (int64_t)below(8);
    HeaderWalk walk = walk_headers(data, 0, (int64_t)size, random_number(), below(2) ? 0 : random_number(), (int)below(2),
                                   head_rows, heads);
    if (walk.rows > heads || walk.position < 0)
        fail("there are too many headers");
    ends[0] = ends[rows + 1] = 0;
    decode_records(data, (int64_t)size, batch, 1, &fault, bounds, wanted, &columns, totals);
    if (totals[TOTAL_ROWS] > rows || totals[TOTAL_VALUE_BYTES] > room || totals[TOTAL_HEADER_ROWS] > pairs)
        fail("the totals are more than the columns have");
    if (wanted & WANTS_KEYS)
        mark_and_search(&columns, totals[TOTAL_ROWS], totals[TOTAL_KEY_BYTES]);
    free(head_rows), free(numbers), free(ends), free(bits), free(keys), free(values), free(pair_keys), free(pair_values);
    return fault == BATCH_WHOLE;
}

/* A copy with its exact size, which the caller frees. */
static uint8_t *copied(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    return copy;
}

/* Makes the checksums right, as far as there are whole batches: else few mutations would come further. */
static void correct_checksums(uint8_t *data, size_t size)
{
    size_t at = 0;
    while (size - at >= BATCH_HEADER) {
        uint32_t length = read_big_endian(data + at + 8), crc;
        if (length < BATCH_HEADER - 12 || length > size - at - 12)
            return;
        crc = checksum(data + at + 21, length + 12 - 21);
        data[at + 17] = (uint8_t)(crc >> 24), data[at + 18] = (uint8_t)(crc >> 16);
        data[at + 19] = (uint8_t)(crc >> 8), data[at + 20] = (uint8_t)crc;
        at += length + 12;
    }
}

/* Two bytes with the sizes of the indexes, the indexes, the segment. */
static int scan(const uint8_t *data, size_t size)
{
    SmallLog found;
    Content segment, offsets, times;
    uint8_t *bytes[3];
    size_t sizes[3], at = 2;
    int index, accepted;
    for (index = 0; index < 2; index++) {
        sizes[index] = size > (size_t)index ? data[index] : 0;
        if (size < at || sizes[index] > size - at)
            sizes[index] = 0;
        bytes[index] = copied(data + (size < at ? 0 : at), sizes[index]);
        at += sizes[index];
    }
    sizes[2] = size > at ? size - at : 0;
    bytes[2] = copied(data + (size > at ? at : 0), sizes[2]);
    if (below(4))
        correct_checksums(bytes[2], sizes[2]);
    offsets = (Content){bytes[0], sizes[0]};
    times = (Content){bytes[1], sizes[1]};
    segment = (Content){bytes[2], sizes[2]};
    accepted = scan_small_log(segment, offsets, times, below(4) ? 0 : random_number(), &found);
    if (accepted && (found.epoch_count < 0 || found.epoch_count > MOST_EPOCHS))
        fail("there are too many epochs");
    for (index = 0; index < 3; index++)
        free(bytes[index]);
    return accepted;
}

/* ---- a folder of a replica */

enum { MOST_FILES = 8, LONGEST_NAME = 40, LONGEST_FILE_PATH = 300, SEGMENT_NAME = 24 };
static char folder_path[LONGEST_FILE_PATH / 2];
static const char CONTENT[] = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ";

static void make_folder(const char *corpus)
{
    snprintf(folder_path, sizeof folder_path, "%s-folder", corpus);
    if (mkdir(folder_path, 0700) != 0)
        fail("the folder cannot be made");
}

/* Returns whether the name is one that a file in the folder may have. */
static int join(char *path, const uint8_t *name, size_t size)
{
    if (size == 0 || memchr(name, 0, size) != NULL || memchr(name, '/', size) != NULL || (size == 1 && name[0] == '.')
        || (size == 2 && memcmp(name, "..", 2) == 0))
        return 0;
    snprintf(path, LONGEST_FILE_PATH, "%s/%.*s", folder_path, (int)size, (const char *)name);
    return 1;
}

static void write_file(const char *path, const uint8_t *content, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, content, size) != (ssize_t)size)
        fail("a file cannot be written");
    close(fd);
}

/* Makes the files of the entry: for each a byte with the size of its name, two with that of its content, the name, the content.
 * Returns their number. */
static int write_files(uint8_t *data, size_t size, char paths[MOST_FILES][LONGEST_FILE_PATH])
{
    size_t at = 0;
    int count = 0;
    while (count < MOST_FILES && size - at >= 3) {
        size_t name = data[at], content = (size_t)data[at + 1] << 8 | data[at + 2];
        at += 3;
        if (name > LONGEST_NAME || name > size - at)
            break;
        if (content > size - at - name)
            content = size - at - name;
        if (join(paths[count], data + at, name)) {
            if (name == SEGMENT_NAME && memcmp(data + at + 20, ".log", 4) == 0 && below(4))
                correct_checksums(data + at + name, content);
            write_file(paths[count++], data + at + name, content);
        }
        at += name + content;
    }
    return count;
}

/* A folder that is accepted has the same log when that is read by its path. */
static void compare_by_path(const ManyLog *found, int64_t most_bytes)
{
    char path[LONGEST_FILE_PATH];
    ManyLog again;
    int length = snprintf(path, sizeof path, "%s/%020lld.log", folder_path, (long long)found->base_offset);
    read_small_logs(path, (size_t)length + 1, most_bytes, &again);
    again.folder_ns = found->folder_ns;
    if (memcmp(&again, found, sizeof again) != 0)
        fail("a log of a folder is another one by its path");
    if (found->end_offset < found->base_offset || (found->size == 0) != (found->end_offset == found->base_offset))
        fail("the ends of a log are wrong");
}

static int read_folder_of(uint8_t *data, size_t size)
{
    char paths[MOST_FILES][LONGEST_FILE_PATH], asked[LONGEST_FILE_PATH + sizeof CONTENT];
    int count = write_files(data, size, paths);
    int length = snprintf(asked, sizeof asked, "%s%c%s", folder_path, 0, CONTENT);
    /* A call may end between the path and the content. */
    size_t bytes = below(20) ? (size_t)length + 1 : strlen(folder_path) + 1;
    uint8_t *exact = copied((const uint8_t *)asked, bytes);
    int64_t most_bytes = below(4) ? LARGEST_OUTPUT : (int64_t)below(400);
    ManyLog found;
    FileState states[MOST_FILES];
    read_small_folders((const char *)exact, bytes, most_bytes, &found);
    if (found.is_found && found.base_offset != NO_SEGMENT)
        compare_by_path(&found, most_bytes);
    free(exact);
    for (; count > 0; count--) {
        stat_files(paths[count - 1], strlen(paths[count - 1]) + 1, states);
        /* Two entries may have the same name. */
        if (unlink(paths[count - 1]) == 0 && states[0].mode == NO_FILE)
            fail("a file was not found");
    }
    return found.is_found != 0;
}

static void check_saturation(void)
{
    int64_t left = random_number(), right = random_number();
    __int128 sum = (__int128)left + right, difference = (__int128)left - right;
    int64_t expected_sum = sum > INT64_MAX ? INT64_MAX : sum < INT64_MIN ? INT64_MIN : (int64_t)sum;
    int64_t expected = difference > INT64_MAX ? INT64_MAX : difference < INT64_MIN ? INT64_MIN : (int64_t)difference;
    if (saturating_add(left, right) != expected_sum || saturating_subtract(left, right) != expected)
        fail("a sum or a difference is wrong");
}

static int run_input(const Entry *entry, const uint8_t *mutated, size_t size)
{
    uint8_t *data = malloc(size ? size : 1);
    int accepted;
    memcpy(data, mutated, size);
    switch (entry->kind) {
    case LZ4:
        accepted = decompress_exactly(decompress_lz4, data, size);
        break;
    case SNAPPY:
        accepted = decompress_exactly(decompress_snappy, data, size);
        break;
    case GZIP:
        accepted = decompress_in_guards(decompress_gzip, data, size);
        break;
    case ZSTD:
        accepted = decompress_in_guards(decompress_zstd, data, size);
        break;
    case RECORDS:
        accepted = walk(data, size);
        break;
    case SMALL_LOG:
        accepted = scan(data, size);
        break;
    case FOLDER:
        accepted = read_folder_of(data, size);
        break;
    case COLUMNS:
        accepted = make_columns(data, size);
        break;
    default:
        accepted = validate(data, size);
    }
    free(data);
    return accepted;
}

static void load_libraries(const char *isal)
{
    void *zstd = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    ZstdAddresses addresses;
    if (!load_isal(isal) || !load_isal(isal))
        fail("ISA-L was not accepted");
    if (load_isal("/nonexistent"))
        fail("a missing library was accepted");
    if (zstd == NULL)
        fail("libzstd.so.1 was not found");
    addresses.create = (uintptr_t)dlsym(zstd, "ZSTD_createDCtx");
    addresses.decompress = (uintptr_t)dlsym(zstd, "ZSTD_decompressDCtx");
    addresses.frame_bytes = (uintptr_t)dlsym(zstd, "ZSTD_findFrameCompressedSize");
    addresses.is_error = (uintptr_t)dlsym(zstd, "ZSTD_isError");
    addresses.error_code = (uintptr_t)dlsym(zstd, "ZSTD_getErrorCode");
    if (!set_zstd_functions(&addresses) || !set_zstd_functions(&addresses))
        fail("libzstd was not accepted");
}

int main(int count, char **arguments)
{
    static uint8_t mutated[LARGEST_INPUT + 64];
    unsigned long long outcomes[KINDS][2] = {{0}}, seed, first, inputs, done = 0;
    time_t until;
    int kind;
    if (count != 7)
        fail("fuzz SEED FIRST INPUTS SECONDS CORPUS ISAL");
    seed = strtoull(arguments[1], NULL, 10);
    first = strtoull(arguments[2], NULL, 10);
    inputs = strtoull(arguments[3], NULL, 10);
    until = time(NULL) + atoi(arguments[4]);
    __sanitizer_set_death_callback(print_input_number);
    signal(SIGABRT, handle_abort);
    load_corpus(arguments[5]);
    make_folder(arguments[5]);
    load_libraries(arguments[6]);
    prepare_checksum();
    for (input_number = first; done < inputs && (done % 256 || time(NULL) <= until); input_number++, done++) {
        const Entry *entry;
        size_t size;
        random_state = seed * 0x2545F4914F6CDD1Du + input_number;
        entry = &entries[below(entry_count)];
        size = mutate(entry, mutated);
        outcomes[entry->kind][run_input(entry, mutated, size)]++;
        check_saturation();
    }
    for (kind = 0; kind < KINDS; kind++)
        printf("%s %llu %llu\n", NAMES[kind], outcomes[kind][1], outcomes[kind][0]);
    rmdir(folder_path);
    return fflush(stdout);
}
