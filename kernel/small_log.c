/* The recovery of a log with one small segment after a crash: its batches are checked in one read.
 *
 * storage/log/small_logs.py has the same in Python, and its reasons; tests/storage/test_small_logs.py compares both. Python
 * decides on every log that is not accepted here: this code cuts nothing, and takes nothing for a torn tail.
 *
 * The bytes are untrusted: `position` never passes the size, and every length is compared with the remaining bytes first.
 */
#include "small_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_BYTES = 61, LOG_OVERHEAD = 12, MAGIC = 2, MAGIC_AT = 16, CRC_FROM = 21, CONTROL = 0x20 };
enum { OFFSET_ENTRY_BYTES = 8, TIME_ENTRY_BYTES = 12, NO_TIMESTAMP = -1, LONGEST_PATH = 4096, LARGEST_FILE = 1 << 20 };
enum { SLICES = 8 };

/* ---- CRC-32C, eight bytes at a time */

static uint32_t table[SLICES][256];

void prepare_checksum(void)
{
    uint32_t number;
    int slice, bit;
    for (number = 0; number < 256; number++) {
        uint32_t crc = number;
        for (bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
        table[0][number] = crc;
    }
    for (slice = 1; slice < SLICES; slice++)
        for (number = 0; number < 256; number++)
            table[slice][number] = table[slice - 1][number] >> 8 ^ table[0][table[slice - 1][number] & 0xFF];
}

static uint32_t little_32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint32_t checksum(const uint8_t *at, size_t size)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (; size >= 8; size -= 8, at += 8) {
        uint32_t low = crc ^ little_32(at), high = little_32(at + 4);
        crc = table[7][low & 0xFF] ^ table[6][low >> 8 & 0xFF] ^ table[5][low >> 16 & 0xFF] ^ table[4][low >> 24]
            ^ table[3][high & 0xFF] ^ table[2][high >> 8 & 0xFF] ^ table[1][high >> 16 & 0xFF] ^ table[0][high >> 24];
    }
    for (; size > 0; size--)
        crc = crc >> 8 ^ table[0][(crc ^ *at++) & 0xFF];
    return ~crc;
}

/* ---- the batches and the indexes */

static uint64_t read_big(const uint8_t *at, int bytes)
{
    uint64_t number = 0;
    for (; bytes > 0; bytes--)
        number = number << 8 | *at++;
    return number;
}

static int64_t read_32(const uint8_t *at)
{
    return (int32_t)read_big(at, 4);
}

static int64_t read_64(const uint8_t *at)
{
    return (int64_t)read_big(at, 8);
}

/* The size of the batch, or 0: not whole, damaged, of a producer with an id, of a control record, or at another offset. */
static size_t plain_batch(const uint8_t *at, size_t remaining, int64_t offset)
{
    int64_t length;
    size_t size;
    if (remaining < HEADER_BYTES || at[MAGIC_AT] != MAGIC)
        return 0;
    length = read_32(at + 8);
    if (length < HEADER_BYTES - LOG_OVERHEAD || length > (int64_t)remaining - LOG_OVERHEAD)
        return 0;
    size = (size_t)length + LOG_OVERHEAD;
    if (read_64(at) != offset || read_32(at + 23) < 0 || read_64(at + 43) >= 0 || (at[22] & CONTROL) != 0)
        return 0;
    return checksum(at + CRC_FROM, size - CRC_FROM) == read_big(at + 17, 4) ? size : 0;
}

/* The entries of an index that no batch has explained yet. Both indexes ascend, as the batches do. */
static int takes_entry(Content *index, size_t width, int64_t first, int64_t second)
{
    size_t first_bytes = width - 4;
    if (index->size < width)
        return 0;
    if ((first_bytes == 8 ? read_64(index->bytes) : read_32(index->bytes)) != first
        || read_32(index->bytes + first_bytes) != second)
        return 0;
    index->bytes += width;
    index->size -= width;
    return 1;
}

static int note_epoch(SmallLog *found, int64_t *latest, int64_t leader_epoch, int64_t offset)
{
    if (leader_epoch <= *latest)
        return 1;
    if (found->epoch_count == MOST_EPOCHS)
        return 0;
    found->epochs[found->epoch_count++] = (EpochStart){leader_epoch, offset};
    *latest = leader_epoch;
    return 1;
}

int scan_small_log(Content segment, Content offset_index, Content time_index, int64_t base_offset, SmallLog *found)
{
    size_t position = 0, size;
    int64_t next_offset = base_offset, latest_epoch = -1, newest_of_entry = NO_TIMESTAMP, indexed = NO_TIMESTAMP;
    found->max_timestamp = NO_TIMESTAMP;
    found->offset_of_max_timestamp = base_offset;
    found->epoch_count = 0;
    if (base_offset < 0 || base_offset > INT64_MAX / 2 + 1 || segment.size > INT32_MAX)
        return 0;
    for (; position < segment.size; position += size) {
        const uint8_t *batch = segment.bytes + position;
        int64_t timestamp, relative;
        size = plain_batch(batch, segment.size - position, next_offset);
        if (size == 0)
            return 0;
        relative = next_offset - base_offset + read_32(batch + 23);
        if (relative > INT32_MAX || !note_epoch(found, &latest_epoch, read_32(batch + 12), next_offset))
            return 0;
        timestamp = read_64(batch + 35);
        if (timestamp > found->max_timestamp) {
            found->max_timestamp = timestamp;
            found->offset_of_max_timestamp = base_offset + relative;
            if (takes_entry(&time_index, TIME_ENTRY_BYTES, timestamp, relative))
                indexed = timestamp;
        }
        if (takes_entry(&offset_index, OFFSET_ENTRY_BYTES, relative, (int64_t)position))
            newest_of_entry = found->max_timestamp;
        next_offset = base_offset + relative + 1;
    }
    found->end_offset = next_offset;
    /* A search for the largest timestamp begins at the last entry of the one, with the last timestamp of the other. */
    return offset_index.size == 0 && time_index.size == 0 && newest_of_entry <= indexed;
}

/* ---- the files */

static int64_t modified_ns(const struct stat *found)
{
#ifdef __APPLE__
    return (int64_t)found->st_mtimespec.tv_sec * 1000000000 + found->st_mtimespec.tv_nsec;
#else
    return (int64_t)found->st_mtim.tv_sec * 1000000000 + found->st_mtim.tv_nsec;
#endif
}

void stat_files(const char *paths, size_t size, FileState *found)
{
    const char *end = paths + size;
    struct stat file;
    for (; paths < end; paths += strlen(paths) + 1, found++) {
        *found = (FileState){0, 0, NO_FILE};
        if (stat(paths, &file) == 0)
            *found = (FileState){file.st_size, modified_ns(&file), file.st_mode};
    }
}

/* Reads a file whole, into memory that the caller frees; 0 when it is too large, or not to be read. */
static int read_file(const char *path, int64_t most_bytes, uint8_t **bytes, struct stat *found)
{
    int is_whole = 0, fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (fstat(fd, found) == 0 && S_ISREG(found->st_mode) && found->st_size >= 0 && found->st_size <= most_bytes) {
        size_t size = (size_t)found->st_size;
        *bytes = malloc(size + 1);
        is_whole = *bytes != NULL && read(fd, *bytes, size + 1) == (ssize_t)size;
    }
    close(fd);
    return is_whole;
}

static int read_index(const char *path, int64_t most_bytes, uint8_t **bytes, Content *content)
{
    struct stat found;
    if (stat(path, &found) < 0)
        return 0;
    if (found.st_size == 0)
        return S_ISREG(found.st_mode);
    if (!read_file(path, most_bytes, bytes, &found))
        return 0;
    content->bytes = *bytes;
    content->size = (size_t)found.st_size;
    return 1;
}

int read_small_log(const char *path, int64_t base_offset, int64_t most_bytes, SmallLog *found)
{
    static const char *const suffixes[] = {".index", ".timeindex"};
    char index_path[LONGEST_PATH];
    uint8_t *buffers[3] = {NULL, NULL, NULL};
    Content contents[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    size_t stem = strlen(path);
    struct stat file;
    int number, is_found;
    if (stem < 4 || stem > LONGEST_PATH - 16 || strcmp(path + stem - 4, ".log") != 0)
        return 0;
    stem -= 4;
    if (most_bytes > LARGEST_FILE)
        most_bytes = LARGEST_FILE;
    is_found = read_file(path, most_bytes, &buffers[0], &file);
    if (is_found)
        contents[0] = (Content){buffers[0], (size_t)file.st_size};
    memcpy(index_path, path, stem);
    for (number = 0; is_found && number < 2; number++) {
        strcpy(index_path + stem, suffixes[number]);
        is_found = read_index(index_path, most_bytes, &buffers[number + 1], &contents[number + 1]);
    }
    if (is_found) {
        found->size = file.st_size;
        found->modified_ns = modified_ns(&file);
        is_found = scan_small_log(contents[0], contents[1], contents[2], base_offset, found);
    }
    for (number = 0; number < 3; number++)
        free(buffers[number]);
    return is_found;
}

/* ---- many logs */

enum { DIGITS = 20, MOST_METADATA_BYTES = 512, RIGHTS_OF_OTHERS = 077 };
enum { HAS_METADATA = 1, HAS_LOG = 2, HAS_INDEX = 4, HAS_TIME_INDEX = 8 };
static const char METADATA[] = "partition.metadata";

/* The number that twenty digits are, or -1. */
static int64_t base_offset_of(const char *digits)
{
    int64_t number = 0;
    int position;
    for (position = 0; position < DIGITS; position++) {
        int digit = digits[position] - '0';
        if (digit < 0 || digit > 9 || number > (INT64_MAX - digit) / 10)
            return -1;
        number = number * 10 + digit;
    }
    return number;
}

static void read_segment(const char *path, int64_t base_offset, int64_t most_bytes, ManyLog *found)
{
    SmallLog log;
    if (base_offset < 0 || !read_small_log(path, base_offset, most_bytes, &log) || log.epoch_count > 1)
        return;
    found->base_offset = base_offset;
    found->size = log.size;
    found->modified_ns = log.modified_ns;
    found->end_offset = log.end_offset;
    found->max_timestamp = log.max_timestamp;
    found->offset_of_max_timestamp = log.offset_of_max_timestamp;
    found->leader_epoch = log.epoch_count ? log.epochs[0].leader_epoch : NO_EPOCH;
    found->start_offset = log.epoch_count ? log.epochs[0].start_offset : NO_EPOCH;
    found->is_found = 1;
}

void read_small_logs(const char *paths, size_t size, int64_t most_bytes, ManyLog *found)
{
    const char *end = paths + size;
    for (; paths < end; paths += strlen(paths) + 1, found++) {
        const char *name = strrchr(paths, '/');
        *found = (ManyLog){0};
        if (name != NULL && strlen(name + 1) == DIGITS + 4)
            read_segment(paths, base_offset_of(name + 1), most_bytes, found);
    }
}

/* The bit of a file that a folder may have; 0 for another. `digits`: of the segment, "" before the first of its files. */
static int kind_of(const char *name, char *digits)
{
    int kind;
    if (strcmp(name, METADATA) == 0)
        return HAS_METADATA;
    if (strlen(name) < DIGITS)
        return 0;
    kind = strcmp(name + DIGITS, ".log") == 0 ? HAS_LOG
        : strcmp(name + DIGITS, ".index") == 0 ? HAS_INDEX
        : strcmp(name + DIGITS, ".timeindex") == 0 ? HAS_TIME_INDEX
        : 0;
    if (digits[0] == 0)
        memcpy(digits, name, DIGITS);
    return memcmp(digits, name, DIGITS) == 0 ? kind : 0;
}

/* The bits of all files in the folder; 0 where it has another, or one that is no regular file. */
static int list_folder(const char *folder, char *digits)
{
    int kinds = 0;
    struct dirent *entry;
    DIR *listed = opendir(folder);
    if (listed == NULL)
        return 0;
    while (errno = 0, (entry = readdir(listed)) != NULL) {
        int kind;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        kind = entry->d_type == DT_REG ? kind_of(entry->d_name, digits) : 0;
        if (kind == 0) {
            kinds = 0;
            break;
        }
        kinds |= kind;
    }
    if (entry == NULL && errno != 0)
        kinds = 0; /* the rest of the names is not known */
    closedir(listed);
    return kinds;
}

static int has_content(const char *path, const char *content)
{
    uint8_t *bytes = NULL;
    struct stat file;
    int is_same = read_file(path, MOST_METADATA_BYTES, &bytes, &file) && (size_t)file.st_size == strlen(content)
        && memcmp(bytes, content, strlen(content)) == 0;
    free(bytes);
    return is_same;
}

static void read_folder(const char *folder, const char *metadata, int64_t most_bytes, ManyLog *found)
{
    char path[LONGEST_PATH], digits[DIGITS + 1] = {0};
    size_t length = strlen(folder);
    struct stat state;
    int kinds;
    if (length > LONGEST_PATH - 64 || stat(folder, &state) < 0 || (state.st_mode & RIGHTS_OF_OTHERS) != 0)
        return;
    kinds = list_folder(folder, digits);
    if ((kinds & HAS_METADATA) == 0)
        return;
    memcpy(path, folder, length);
    path[length] = '/';
    strcpy(path + length + 1, METADATA);
    if (!has_content(path, metadata))
        return;
    found->folder_ns = modified_ns(&state);
    if (kinds == HAS_METADATA) {
        found->base_offset = NO_SEGMENT;
        found->is_found = 1;
    } else if (kinds == (HAS_METADATA | HAS_LOG | HAS_INDEX | HAS_TIME_INDEX)) {
        memcpy(path + length + 1, digits, DIGITS);
        strcpy(path + length + 1 + DIGITS, ".log");
        read_segment(path, base_offset_of(digits), most_bytes, found);
    }
}

void read_small_folders(const char *folders, size_t size, int64_t most_bytes, ManyLog *found)
{
    const char *end = folders + size;
    for (; folders < end; found++) {
        const char *metadata = folders + strlen(folders) + 1;
        *found = (ManyLog){0};
        if (metadata >= end)
            return;
        read_folder(folders, metadata, most_bytes, found);
        folders = metadata + strlen(metadata) + 1;
    }
}
