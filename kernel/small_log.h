/* Files of many logs at a start, and the recovery of a small log after a crash. See small_log.c. */
#ifndef ODRADEK_SMALL_LOG_H
#define ODRADEK_SMALL_LOG_H

#include <stddef.h>
#include <stdint.h>

/* A log with more new epochs in one small segment is left to Python. */
enum { MOST_EPOCHS = 16 };

typedef struct {
    int64_t leader_epoch, start_offset;
} EpochStart;

typedef struct {
    const uint8_t *bytes;
    size_t size;
} Content;

typedef struct {
    int64_t size, modified_ns; /* of the segment's file */
    int64_t end_offset, max_timestamp, offset_of_max_timestamp;
    int epoch_count;
    EpochStart epochs[MOST_EPOCHS];
} SmallLog;

/* `mode` is NO_FILE of a file that is not there, or that cannot be looked at. */
typedef struct {
    int64_t size, modified_ns, mode;
} FileState;

enum { NO_FILE = -1 };

/* Looks at each file. `paths`: `size` bytes, with a NUL after each path. */
void stat_files(const char *paths, size_t size, FileState *found);

/* To be called once, before the other functions. */
void prepare_checksum(void);

/* CRC-32C. */
uint32_t checksum(const uint8_t *at, size_t size);

/* Returns whether whole batches fill the segment, and all entries of its indexes are of them; 0 also for all that only the
 * recovery in Python understands. `found` has the ends, the timestamp and the epochs then. */
int scan_small_log(Content segment, Content offset_index, Content time_index, int64_t base_offset, SmallLog *found);

/* Reads the files, `path` (which ends with ".log") and those of its indexes, and scans them. Files of more than `most_bytes`
 * are left to Python. */
int read_small_log(const char *path, int64_t base_offset, int64_t most_bytes, SmallLog *found);

/* What was read of one of many logs. `is_found` is 0 where Python decides, and the rest has no meaning then. */
typedef struct {
    int64_t is_found;
    int64_t folder_ns;   /* the time of the folder before it was listed */
    int64_t base_offset; /* NO_SEGMENT of a folder without a log */
    int64_t size, modified_ns, end_offset, max_timestamp, offset_of_max_timestamp;
    int64_t leader_epoch, start_offset; /* the one epoch of a segment with batches, else NO_EPOCH */
} ManyLog;

enum { NO_SEGMENT = -1, NO_EPOCH = -1 };

/* Reads each log as `read_small_log` does. `paths`: those of segments, whose names have the base offsets, in `size` bytes with
 * a NUL after each. */
void read_small_logs(const char *paths, size_t size, int64_t most_bytes, ManyLog *found);

/* Reads each folder, which must have nothing but one segment with its indexes, or none, and `partition.metadata` with that
 * content. `folders`: the path and the content of each folder, in `size` bytes with a NUL after each of them. */
void read_small_folders(const char *folders, size_t size, int64_t most_bytes, ManyLog *found);

#endif
