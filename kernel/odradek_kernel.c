/* The compiled kernel of Odradek: the work for each record and each byte of a produced batch.
 *
 * Without this module, Odradek does the same in Python. This file has the functions that Python calls: they parse arguments,
 * and call records.c, gzip.c, lz4.c, snappy.c, zstd.c, validation.c, small_log.c, columns.c and
 * key_filter.c.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "codecs.h"
#include "columns.h"
#include "encoding.h"
#include "key_filter.h"
#include "records.h"
#include "small_log.h"
#include "validation.h"

/* For fewer bytes a thread keeps the interpreter's lock: to acquire it again may cost more. */
enum { LEAST_RELEASED_BYTES = 64 << 10 };

static PyObject *py_walk_records(PyObject *module, PyObject *arguments)
{
    PyObject *buffer;
    Py_buffer view;
    Py_ssize_t start;
    long long count, max_record_bytes, base, earliest, latest;
    int needs_key, releases, fault;
    RecordScan scan;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OnLLLLLpp", &buffer, &start, &count, &max_record_bytes, &base, &earliest, &latest,
                          &needs_key, &releases))
        return NULL;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if (start < 0 || start > view.len) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_ValueError, "the records begin outside of the buffer");
        return NULL;
    }
    scan = (RecordScan){max_record_bytes, base, earliest, latest, needs_key, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    const uint8_t *bytes = (const uint8_t *)view.buf;
    if (releases) {
        Py_BEGIN_ALLOW_THREADS
        fault = walk_records(bytes + start, bytes + view.len, count, &scan);
        Py_END_ALLOW_THREADS
    } else {
        fault = walk_records(bytes + start, bytes + view.len, count, &scan);
    }
    PyBuffer_Release(&view);
    return Py_BuildValue("(iLLLL)", fault, (long long)scan.max_timestamp, (long long)scan.disordered,
                         (long long)scan.keyless, (long long)scan.out_of_range);
}

static PyObject *py_find_record(PyObject *module, PyObject *arguments)
{
    PyObject *buffer;
    Py_buffer view;
    long long count, base, least_timestamp, least_offset;
    int fault;
    RecordScan scan;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OLLLL", &buffer, &count, &base, &least_timestamp, &least_offset))
        return NULL;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    scan = (RecordScan){INT32_MAX, base, INT64_MIN, INT64_MAX, 0, -1, 0, 0, 0, 1, least_timestamp, least_offset, 0, 0};
    const uint8_t *bytes = (const uint8_t *)view.buf;
    Py_BEGIN_ALLOW_THREADS
    fault = walk_records(bytes, bytes + view.len, count, &scan);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    if (fault != WHOLE || scan.is_searching)
        Py_RETURN_NONE;
    return Py_BuildValue("(LL)", (long long)scan.found_offset, (long long)scan.found_timestamp);
}

typedef int64_t (*Decompressor)(const uint8_t *, size_t, uint8_t *, size_t);

static PyObject *decompress_any_thread(Decompressor decompress, PyObject *arguments)
{
    PyObject *data, *out;
    Py_buffer input, out_view;
    int64_t written;
    if (!PyArg_ParseTuple(arguments, "OO", &data, &out))
        return NULL;
    if (PyObject_GetBuffer(data, &input, PyBUF_SIMPLE) < 0)
        return NULL;
    if (PyObject_GetBuffer(out, &out_view, PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&input);
        return NULL;
    }
    if (input.len >= LEAST_RELEASED_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        written = decompress(input.buf, (size_t)input.len, out_view.buf, (size_t)out_view.len);
        Py_END_ALLOW_THREADS
    } else {
        written = decompress(input.buf, (size_t)input.len, out_view.buf, (size_t)out_view.len);
    }
    PyBuffer_Release(&out_view);
    PyBuffer_Release(&input);
    return PyLong_FromLongLong(written);
}

static PyObject *py_decompress_lz4(PyObject *module, PyObject *arguments)
{
    (void)module;
    return decompress_any_thread(decompress_lz4, arguments);
}

static PyObject *py_decompress_snappy(PyObject *module, PyObject *arguments)
{
    (void)module;
    return decompress_any_thread(decompress_snappy, arguments);
}

static PyObject *py_set_zstd_functions(PyObject *module, PyObject *arguments)
{
    unsigned long long create, decompress, frame_bytes, is_error, error_code;
    ZstdAddresses addresses;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "KKKKK", &create, &decompress, &frame_bytes, &is_error, &error_code))
        return NULL;
    if (!create || !decompress || !frame_bytes || !is_error || !error_code) {
        PyErr_SetString(PyExc_ValueError, "an address is 0");
        return NULL;
    }
    addresses = (ZstdAddresses){(uintptr_t)create, (uintptr_t)decompress, (uintptr_t)frame_bytes, (uintptr_t)is_error,
                                (uintptr_t)error_code};
    if (!set_zstd_functions(&addresses))
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *py_load_isal(PyObject *module, PyObject *arguments)
{
    const char *path;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "s", &path))
        return NULL;
    return PyBool_FromLong(load_isal(path));
}

/* Keeps the interpreter's lock, for decompressors whose context is shared. */
static PyObject *decompress_with_lock(Decompressor decompress, PyObject *arguments)
{
    PyObject *data, *out;
    Py_buffer input, out_view;
    int64_t written;
    if (!PyArg_ParseTuple(arguments, "OO", &data, &out))
        return NULL;
    if (PyObject_GetBuffer(data, &input, PyBUF_SIMPLE) < 0)
        return NULL;
    if (PyObject_GetBuffer(out, &out_view, PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&input);
        return NULL;
    }
    written = decompress(input.buf, (size_t)input.len, out_view.buf, (size_t)out_view.len);
    PyBuffer_Release(&out_view);
    PyBuffer_Release(&input);
    return PyLong_FromLongLong(written);
}

static PyObject *py_decompress_gzip(PyObject *module, PyObject *arguments)
{
    (void)module;
    return decompress_with_lock(decompress_gzip, arguments);
}

static PyObject *py_decompress_zstd(PyObject *module, PyObject *arguments)
{
    (void)module;
    return decompress_with_lock(decompress_zstd, arguments);
}

/* The numbers that `validate_batch` takes after the two buffers, in their order. */
enum {
    VERSION, NOW, BEFORE, AFTER, MAX_RECORD_BYTES, NEEDS_KEY, CHECKED_CODECS, MAX_RECORDS, MAX_COMPRESSED_BYTES, BASE_OFFSET,
    LEADER_EPOCH, NUMBERS
};

static PyObject *header_as_tuple(const BatchHeader *header, const int64_t *numbers, int64_t written)
{
    const int64_t fields[] = {
        numbers[BASE_OFFSET], header->length, numbers[LEADER_EPOCH], header->magic, header->crc, header->attributes,
        header->last_offset_delta, header->base_timestamp, header->max_timestamp, header->producer_id,
        header->producer_epoch, header->base_sequence, header->record_count, written,
    };
    const Py_ssize_t count = sizeof fields / sizeof fields[0];
    PyObject *found = PyTuple_New(count);
    Py_ssize_t index;
    for (index = 0; found != NULL && index < count; index++) {
        PyObject *number = PyLong_FromLongLong(fields[index]);
        if (number == NULL)
            Py_CLEAR(found);
        else
            PyTuple_SetItem(found, index, number);
    }
    return found;
}

static PyObject *py_validate_batch(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Py_buffer batch, scratch;
    BatchHeader header;
    BatchRules rules;
    int64_t numbers[NUMBERS], written;
    int index;
    (void)module;
    if (count != NUMBERS + 2) {
        PyErr_SetString(PyExc_TypeError, "validate_batch takes two buffers and eleven numbers");
        return NULL;
    }
    for (index = 0; index < NUMBERS; index++) {
        numbers[index] = PyLong_AsLongLong(arguments[index + 2]);
        if (numbers[index] == -1 && PyErr_Occurred())
            return NULL;
    }
    if (PyObject_GetBuffer(arguments[0], &batch, PyBUF_SIMPLE) < 0)
        return NULL;
    if (PyObject_GetBuffer(arguments[1], &scratch, PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&batch);
        return NULL;
    }
    rules.version = numbers[VERSION];
    rules.earliest_timestamp = saturating_subtract(numbers[NOW], numbers[BEFORE]);
    rules.latest_timestamp = saturating_add(numbers[NOW], numbers[AFTER]);
    rules.max_record_bytes = numbers[MAX_RECORD_BYTES];
    rules.needs_key = numbers[NEEDS_KEY] != 0;
    rules.checked_codecs = numbers[CHECKED_CODECS];
    rules.max_records = numbers[MAX_RECORDS];
    rules.max_compressed_bytes = numbers[MAX_COMPRESSED_BYTES];
    rules.scratch = scratch.buf;
    rules.scratch_bytes = (size_t)scratch.len;
    written = validate_batch(batch.buf, (size_t)batch.len, &rules, &header);
    PyBuffer_Release(&scratch);
    PyBuffer_Release(&batch);
    if (written == NOT_ACCEPTED)
        Py_RETURN_NONE;
    return header_as_tuple(&header, numbers, written);
}

/* Whether numbers of `bytes` can be read in the buffer. Python gives an empty array an address of any kind. */
static int is_aligned(const Py_buffer *view, size_t bytes)
{
    return view->len == 0 || (uintptr_t)view->buf % bytes == 0;
}

/* The numbers that `walk_headers` takes between its two buffers, in their order. */
enum { WALK_START, WALK_STOP, WALK_FILE_POSITION, WALK_LEAST_OFFSET, WALK_IS_WHOLE, WALK_NUMBERS };

static PyObject *py_walk_headers(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Py_buffer data, rows;
    HeaderWalk walk = {0, 0, -1};
    int64_t numbers[WALK_NUMBERS];
    int index;
    (void)module;
    if (count != WALK_NUMBERS + 2) {
        PyErr_SetString(PyExc_TypeError, "walk_headers takes two buffers and five numbers");
        return NULL;
    }
    for (index = 0; index < WALK_NUMBERS; index++) {
        numbers[index] = PyLong_AsLongLong(arguments[index + 1]);
        if (numbers[index] == -1 && PyErr_Occurred())
            return NULL;
    }
    if (PyObject_GetBuffer(arguments[0], &data, PyBUF_SIMPLE) < 0)
        return NULL;
    if (PyObject_GetBuffer(arguments[WALK_NUMBERS + 1], &rows, PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&data);
        return NULL;
    }
    if (numbers[WALK_START] >= 0 && numbers[WALK_START] <= data.len && numbers[WALK_STOP] >= 0
        && numbers[WALK_STOP] <= data.len && is_aligned(&rows, sizeof(int64_t))) {
        Py_BEGIN_ALLOW_THREADS
        walk = walk_headers(data.buf, numbers[WALK_START], numbers[WALK_STOP], numbers[WALK_FILE_POSITION],
                            numbers[WALK_LEAST_OFFSET], numbers[WALK_IS_WHOLE] != 0, rows.buf,
                            rows.len / (Py_ssize_t)(ROW_NUMBERS * sizeof(int64_t)));
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&rows);
    PyBuffer_Release(&data);
    if (walk.result < 0) {
        PyErr_SetString(PyExc_ValueError, "the headers are outside of the buffer, or the rows are not aligned");
        return NULL;
    }
    return Py_BuildValue("(LLi)", (long long)walk.rows, (long long)walk.position, walk.result);
}

/* The buffers that `decode_records` takes, in their order, and the size of their elements. `WANTED_COLUMNS` is a number. */
enum {
    DATA, BATCHES, FAULTS, BOUNDS, WANTED_COLUMNS, OFFSETS, TIMESTAMPS, TYPES, KEY_ENDS, KEY_VALIDITY, KEYS, VALUE_ENDS,
    VALUE_VALIDITY, VALUES, HEADER_ENDS, PAIR_ENDS, PAIR_VALIDITY, PAIR_KEYS, PAIR_VALUES, TOTALS, DECODE_ARGUMENTS
};
static const uint8_t ELEMENT_BYTES[DECODE_ARGUMENTS] = {1, 8, 1, 8, 0, 8, 8, 4, 4, 1, 1, 4, 1, 1, 4, 4, 1, 1, 1, 8};

static int64_t elements(const Py_buffer *views, int which)
{
    return (int64_t)views[which].len / ELEMENT_BYTES[which];
}

/* Whether the buffers are aligned, and have as many elements as the first of each column says. */
static int are_consistent(const Py_buffer *views, int64_t wanted, const RecordColumns *columns)
{
    int64_t rows = columns->capacity, bits = rows / 8 + (rows % 8 != 0), pairs = columns->pair_capacity;
    int which;
    for (which = 0; which < DECODE_ARGUMENTS; which++)
        if (which != WANTED_COLUMNS && !is_aligned(views + which, ELEMENT_BYTES[which]))
            return 0;
    if (elements(views, FAULTS) < elements(views, BATCHES) / BATCH_NUMBERS || elements(views, BOUNDS) < BOUND_NUMBERS
        || elements(views, TOTALS) < TOTAL_NUMBERS || elements(views, TIMESTAMPS) < rows || elements(views, TYPES) < rows)
        return 0;
    if ((wanted & WANTS_KEYS) && (elements(views, KEY_ENDS) <= rows || elements(views, KEY_VALIDITY) < bits))
        return 0;
    if ((wanted & WANTS_VALUES) && (elements(views, VALUE_ENDS) <= rows || elements(views, VALUE_VALIDITY) < bits))
        return 0;
    return !(wanted & WANTS_HEADERS)
           || (elements(views, HEADER_ENDS) > rows && elements(views, PAIR_ENDS) >= 2 * (pairs + 1)
               && elements(views, PAIR_VALIDITY) >= pairs / 8 + (pairs % 8 != 0));
}

static RecordColumns columns_of(const Py_buffer *views)
{
    RecordColumns columns = {
        .capacity = elements(views, OFFSETS),
        .offsets = views[OFFSETS].buf,
        .timestamps = views[TIMESTAMPS].buf,
        .types = views[TYPES].buf,
        .keys = {views[KEY_ENDS].buf, views[KEY_VALIDITY].buf, views[KEYS].buf, elements(views, KEYS)},
        .values = {views[VALUE_ENDS].buf, views[VALUE_VALIDITY].buf, views[VALUES].buf, elements(views, VALUES)},
        .header_ends = views[HEADER_ENDS].buf,
        .pair_capacity = elements(views, PAIR_ENDS) / 2 - 1,
        .pair_ends = views[PAIR_ENDS].buf,
        .pair_validity = views[PAIR_VALIDITY].buf,
        .pair_keys = views[PAIR_KEYS].buf,
        .pair_values = views[PAIR_VALUES].buf,
        .pair_key_room = elements(views, PAIR_KEYS),
        .pair_value_room = elements(views, PAIR_VALUES),
    };
    if (columns.pair_capacity < 0)
        columns.pair_capacity = 0;
    return columns;
}

static PyObject *py_decode_records(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Py_buffer views[DECODE_ARGUMENTS];
    RecordColumns columns;
    int64_t wanted;
    int which, taken, are_good = 0;
    (void)module;
    if (count != DECODE_ARGUMENTS) {
        PyErr_SetString(PyExc_TypeError, "decode_records takes nineteen buffers and a number");
        return NULL;
    }
    wanted = PyLong_AsLongLong(arguments[WANTED_COLUMNS]);
    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    for (taken = 0; taken < DECODE_ARGUMENTS; taken++) {
        int is_read = taken == DATA || taken == BATCHES || taken == BOUNDS;
        if (taken != WANTED_COLUMNS
            && PyObject_GetBuffer(arguments[taken], &views[taken], is_read ? PyBUF_SIMPLE : PyBUF_WRITABLE) < 0)
            break;
    }
    if (taken == DECODE_ARGUMENTS) {
        columns = columns_of(views);
        are_good = are_consistent(views, wanted, &columns);
    }
    if (are_good) {
        Py_BEGIN_ALLOW_THREADS
        decode_records(views[DATA].buf, views[DATA].len, views[BATCHES].buf, elements(views, BATCHES) / BATCH_NUMBERS,
                       views[FAULTS].buf, views[BOUNDS].buf, wanted, &columns, views[TOTALS].buf);
        Py_END_ALLOW_THREADS
    }
    for (which = 0; which < taken; which++)
        if (which != WANTED_COLUMNS)
            PyBuffer_Release(&views[which]);
    if (are_good)
        Py_RETURN_NONE;
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the buffers of decode_records do not have the same rows, or are not aligned");
    return NULL;
}

/* Whether the size of a filter is a power of two. */
static int is_power_of_two(Py_ssize_t size)
{
    return size > 0 && (size & (size - 1)) == 0;
}

static PyObject *py_mark_keys(PyObject *module, PyObject *arguments)
{
    PyObject *objects[4];
    Py_buffer views[4];
    Py_ssize_t rows = 0;
    int taken, which, has_validity, is_marked = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOO", &objects[0], &objects[1], &objects[2], &objects[3]))
        return NULL;
    has_validity = objects[3] != Py_None;
    for (taken = 0; taken < 3 + has_validity; taken++)
        if (PyObject_GetBuffer(objects[taken], &views[taken], taken == 0 ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0)
            break;
    if (taken == 3 + has_validity) {
        rows = views[1].len / (Py_ssize_t)sizeof(int32_t) - 1;
        if (is_power_of_two(views[0].len) && is_aligned(views + 1, sizeof(int32_t))
            && (!has_validity || views[3].len >= rows / 8 + (rows % 8 != 0))) {
            Py_BEGIN_ALLOW_THREADS
            is_marked = mark_keys(views[0].buf, (uint64_t)views[0].len, views[1].buf, has_validity ? views[3].buf : NULL, rows,
                                  views[2].buf, views[2].len);
            Py_END_ALLOW_THREADS
        }
    }
    for (which = 0; which < taken; which++)
        PyBuffer_Release(&views[which]);
    if (is_marked)
        Py_RETURN_NONE;
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the size of the filter is no power of two, or the keys are not within their bytes");
    return NULL;
}

static PyObject *py_may_have_key(PyObject *module, PyObject *arguments)
{
    PyObject *filter, *bytes;
    Py_buffer bits, key;
    int found = -1;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OO", &filter, &bytes))
        return NULL;
    if (PyObject_GetBuffer(filter, &bits, PyBUF_SIMPLE) < 0)
        return NULL;
    if (PyObject_GetBuffer(bytes, &key, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&bits);
        return NULL;
    }
    if (is_power_of_two(bits.len))
        found = may_have_key(bits.buf, (uint64_t)bits.len, key.buf, (uint64_t)key.len);
    PyBuffer_Release(&key);
    PyBuffer_Release(&bits);
    if (found >= 0)
        return PyBool_FromLong(found);
    PyErr_SetString(PyExc_ValueError, "the size of the filter is no power of two");
    return NULL;
}

/* The columns of `encode_rows`, in their order; each may be None. */
enum {
    TIMES, KEYS_ENDS, KEYS_VALIDITY, KEYS_BYTES, VALUES_ENDS, VALUES_VALIDITY, VALUES_BYTES, PAIRS_ENDS, PAIR_KEYS_ENDS,
    PAIR_KEYS_VALIDITY, PAIR_KEYS_BYTES, PAIR_VALUES_ENDS, PAIR_VALUES_VALIDITY, PAIR_VALUES_BYTES, SOURCE_COLUMNS
};

/* A column of ends, validity and bytes; the bytes of a column without any may be None. */
static Texts texts_of(const Py_buffer *views)
{
    Texts texts = {views[0].buf, views[1].buf, views[2].buf, views[0].len / (Py_ssize_t)sizeof(int32_t) - 1, views[2].len};
    if (texts.validity != 0 && texts.rows > views[1].len * 8)
        texts.rows = views[1].len * 8;
    return texts;
}

/* Takes the buffers of a sequence, with zeros for None. Returns how many it has taken. */
static int take_buffers(PyObject *sequence, Py_buffer *views, int count)
{
    int taken;
    for (taken = 0; taken < count; taken++) {
        PyObject *one = PyTuple_GetItem(sequence, taken);
        if (one == NULL)
            break;
        memset(views + taken, 0, sizeof *views);
        if (one != Py_None && PyObject_GetBuffer(one, views + taken, PyBUF_SIMPLE) < 0)
            break;
    }
    return taken;
}

static void release_buffers(Py_buffer *views, int count)
{
    int which;
    for (which = 0; which < count; which++)
        if (views[which].obj != NULL)
            PyBuffer_Release(views + which);
}

static PyObject *py_encode_rows(PyObject *module, PyObject *arguments)
{
    PyObject *target, *chosen, *sequence;
    Py_buffer out, rows, views[SOURCE_COLUMNS];
    Payload payload = {0, 0, 0, INT64_MIN};
    long long size, records, first, base_timestamp;
    int64_t appended = -1, count;
    int taken;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OLLOLLO!", &target, &size, &records, &chosen, &first, &base_timestamp, &PyTuple_Type,
                          &sequence))
        return NULL;
    if (PyObject_GetBuffer(target, &out, PyBUF_WRITABLE) < 0)
        return NULL;
    if (PyObject_GetBuffer(chosen, &rows, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&out);
        return NULL;
    }
    taken = take_buffers(sequence, views, SOURCE_COLUMNS);
    count = rows.len / (Py_ssize_t)sizeof(int32_t);
    if (taken == SOURCE_COLUMNS && size >= 0 && size <= out.len && records >= 0 && records < INT32_MAX - count && first >= 0
        && first <= count && is_aligned(&rows, sizeof(int32_t)) && is_aligned(views + TIMES, sizeof(int64_t))
        && is_aligned(views + KEYS_ENDS, sizeof(int32_t)) && is_aligned(views + VALUES_ENDS, sizeof(int32_t))
        && is_aligned(views + PAIRS_ENDS, sizeof(int32_t)) && is_aligned(views + PAIR_KEYS_ENDS, sizeof(int32_t))
        && is_aligned(views + PAIR_VALUES_ENDS, sizeof(int32_t))) {
        SourceColumns columns = {views[TIMES].buf, views[TIMES].len / (Py_ssize_t)sizeof(int64_t), texts_of(views + KEYS_ENDS),
                                 texts_of(views + VALUES_ENDS), views[PAIRS_ENDS].buf,
                                 views[PAIRS_ENDS].len / (Py_ssize_t)sizeof(int32_t) - 1, texts_of(views + PAIR_KEYS_ENDS),
                                 texts_of(views + PAIR_VALUES_ENDS)};
        payload.size = size;
        payload.records = records;
        Py_BEGIN_ALLOW_THREADS
        appended = encode_rows(out.buf, out.len, &payload, &columns, rows.buf, first, count, base_timestamp);
        Py_END_ALLOW_THREADS
    }
    release_buffers(views, taken);
    PyBuffer_Release(&rows);
    PyBuffer_Release(&out);
    if (appended >= 0)
        return Py_BuildValue("(LLLL)", (long long)appended, (long long)payload.size, (long long)payload.needed,
                             (long long)payload.max_timestamp);
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a row is not within the columns, or a buffer is not aligned");
    return NULL;
}

static PyObject *py_partitions_of_keys(PyObject *module, PyObject *arguments)
{
    PyObject *target, *sequence;
    Py_buffer partitions, views[3];
    int partition_count, kind, taken, are_good = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OO!ii", &target, &PyTuple_Type, &sequence, &partition_count, &kind))
        return NULL;
    if (PyObject_GetBuffer(target, &partitions, PyBUF_WRITABLE) < 0)
        return NULL;
    taken = take_buffers(sequence, views, 3);
    if (taken == 3 && partition_count > 0 && (kind == JAVA_PARTITIONER || kind == CRC_PARTITIONER)
        && is_aligned(&partitions, sizeof(int32_t)) && is_aligned(views, sizeof(int32_t))) {
        Texts keys = texts_of(views);
        int64_t rows = partitions.len / (Py_ssize_t)sizeof(int32_t);
        Py_BEGIN_ALLOW_THREADS
        are_good = partitions_of_keys(partitions.buf, &keys, rows, partition_count, kind);
        Py_END_ALLOW_THREADS
    }
    release_buffers(views, taken);
    PyBuffer_Release(&partitions);
    if (are_good)
        Py_RETURN_NONE;
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the keys are not within their bytes, or the partitioner is unknown");
    return NULL;
}

static PyObject *epochs_as_list(const SmallLog *found)
{
    PyObject *list = PyList_New(found->epoch_count);
    int index;
    for (index = 0; list != NULL && index < found->epoch_count; index++) {
        const EpochStart *one = &found->epochs[index];
        PyObject *pair = Py_BuildValue("(LL)", (long long)one->leader_epoch, (long long)one->start_offset);
        if (pair == NULL)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, index, pair);
    }
    return list;
}

static PyObject *py_read_small_log(PyObject *module, PyObject *arguments)
{
    PyObject *path, *epochs;
    long long base_offset, most_bytes;
    const char *name;
    SmallLog found;
    int is_found;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O&LL", PyUnicode_FSConverter, &path, &base_offset, &most_bytes))
        return NULL;
    name = PyBytes_AsString(path);
    if (name == NULL) {
        Py_DECREF(path);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    is_found = read_small_log(name, base_offset, most_bytes, &found);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    if (!is_found)
        Py_RETURN_NONE;
    epochs = epochs_as_list(&found);
    if (epochs == NULL)
        return NULL;
    return Py_BuildValue("(LLLLLN)", (long long)found.size, (long long)found.modified_ns, (long long)found.end_offset,
                         (long long)found.max_timestamp, (long long)found.offset_of_max_timestamp, epochs);
}

/* Returns the number of paths in the bytes, each of which ends with a NUL; -1 with an exception. */
static Py_ssize_t count_paths(PyObject *paths, char **bytes, Py_ssize_t *size)
{
    Py_ssize_t position, count = 0;
    if (PyBytes_AsStringAndSize(paths, bytes, size) < 0)
        return -1;
    if (*size > 0 && (*bytes)[*size - 1] != 0) {
        PyErr_SetString(PyExc_ValueError, "each path ends with a NUL");
        return -1;
    }
    for (position = 0; position < *size; position++)
        count += (*bytes)[position] == 0;
    return count;
}

static PyObject *py_stat_files(PyObject *module, PyObject *paths)
{
    char *bytes;
    Py_ssize_t size, count = count_paths(paths, &bytes, &size);
    PyObject *found;
    FileState *states;
    (void)module;
    if (count < 0)
        return NULL;
    found = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(FileState));
    if (found == NULL)
        return NULL;
    states = (FileState *)(void *)PyBytes_AsString(found);
    Py_BEGIN_ALLOW_THREADS
    stat_files(bytes, (size_t)size, states);
    Py_END_ALLOW_THREADS
    return found;
}

/* `each`: the number of texts for one log. */
static PyObject *read_many(PyObject *arguments, Py_ssize_t each, void (*read)(const char *, size_t, int64_t, ManyLog *))
{
    PyObject *texts, *found;
    long long most_bytes;
    char *bytes;
    Py_ssize_t size, count;
    ManyLog *logs;
    if (!PyArg_ParseTuple(arguments, "SL", &texts, &most_bytes))
        return NULL;
    count = count_paths(texts, &bytes, &size);
    if (count < 0)
        return NULL;
    if (count % each != 0) {
        PyErr_SetString(PyExc_ValueError, "each folder has a path and a content");
        return NULL;
    }
    found = PyBytes_FromStringAndSize(NULL, count / each * (Py_ssize_t)sizeof(ManyLog));
    if (found == NULL)
        return NULL;
    logs = (ManyLog *)(void *)PyBytes_AsString(found);
    Py_BEGIN_ALLOW_THREADS
    read(bytes, (size_t)size, most_bytes, logs);
    Py_END_ALLOW_THREADS
    return found;
}

static PyObject *py_read_small_logs(PyObject *module, PyObject *arguments)
{
    (void)module;
    return read_many(arguments, 1, read_small_logs);
}

static PyObject *py_read_small_folders(PyObject *module, PyObject *arguments)
{
    (void)module;
    return read_many(arguments, 2, read_small_folders);
}

static PyObject *py_trim_memory(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
#ifdef __GLIBC__
    Py_BEGIN_ALLOW_THREADS
    malloc_trim(0);
    Py_END_ALLOW_THREADS
#endif
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"decode_records", (PyCFunction)(void (*)(void))py_decode_records, METH_FASTCALL,
     "decode_records(data, batches, faults, bounds, columns, ...) -> None: see columns/loops.py, which has the same arguments"},
    {"decompress_gzip", py_decompress_gzip, METH_VARARGS,
     "decompress_gzip(data, out) -> as decompress_lz4; -3 before load_isal, -1 also for members that a library must decompress"},
    {"decompress_lz4", py_decompress_lz4, METH_VARARGS,
     "decompress_lz4(data, out) -> bytes written, -1 if data is damaged, -2 if out is too small"},
    {"decompress_snappy", py_decompress_snappy, METH_VARARGS, "decompress_snappy(data, out) -> as decompress_lz4"},
    {"decompress_zstd", py_decompress_zstd, METH_VARARGS,
     "decompress_zstd(data, out) -> as decompress_lz4; -3 before set_zstd_functions, -1 also for frames that a library must "
     "decompress"},
    {"encode_rows", py_encode_rows, METH_VARARGS,
     "encode_rows(out, size, records, rows, first, base_timestamp, columns) -> rows, size, needed bytes, max timestamp: see "
     "sink/rows.py"},
    {"find_record", py_find_record, METH_VARARGS,
     "find_record(buffer, count, base_timestamp, least_timestamp, least_offset) -> tuple or None"},
    {"load_isal", py_load_isal, METH_VARARGS,
     "load_isal(path) -> bool: whether decompress_gzip uses ISA-L in the shared library at the path"},
    {"mark_keys", py_mark_keys, METH_VARARGS,
     "mark_keys(filter, ends, bytes, validity) -> None: adds the keys of an Arrow column to a Bloom filter"},
    {"may_have_key", py_may_have_key, METH_VARARGS, "may_have_key(filter, key) -> bool: False is certain"},
    {"partitions_of_keys", py_partitions_of_keys, METH_VARARGS,
     "partitions_of_keys(out, (ends, validity, keys), partitions, kind) -> None: -1 where the key decides nothing"},
    {"read_small_log", py_read_small_log, METH_VARARGS,
     "read_small_log(path, base_offset, most_bytes) -> size, modified_ns, end_offset, max_timestamp, offset_of_max_timestamp, "
     "[(leader_epoch, start_offset)]; None where storage/log/small_logs.py has to read the log"},
    {"read_small_folders", py_read_small_folders, METH_VARARGS,
     "read_small_folders(folders, most_bytes) -> bytes: as read_small_logs. A path and the content of partition.metadata, with "
     "a NUL after both, for each folder"},
    {"read_small_logs", py_read_small_logs, METH_VARARGS,
     "read_small_logs(paths, most_bytes) -> bytes: ten numbers of 64 bits for each log, see ManyLog in small_log.h. A NUL ends "
     "each path"},
    {"set_zstd_functions", py_set_zstd_functions, METH_VARARGS,
     "set_zstd_functions(create, decompress, frame_bytes, is_error, error_code) -> None: addresses of libzstd's functions"},
    {"stat_files", py_stat_files, METH_O,
     "stat_files(paths) -> bytes: size, modified_ns and mode of each file, of 64 bits each. A NUL ends each path; the mode is -1 "
     "where stat fails"},
    {"trim_memory", py_trim_memory, METH_NOARGS,
     "trim_memory() -> None: makes glibc give free memory back to the system; no effect with another C library"},
    {"validate_batch", (PyCFunction)(void (*)(void))py_validate_batch, METH_FASTCALL,
     "validate_batch(batch, scratch, version, now_ms, before_ms, after_ms, max_record_bytes, needs_key, checked_codecs, "
     "max_records, max_compressed_bytes, base_offset, leader_epoch) -> header and decompressed bytes, or None"},
    {"walk_headers", (PyCFunction)(void (*)(void))py_walk_headers, METH_FASTCALL,
     "walk_headers(data, start, stop, file_position, least_offset, whole, rows) -> rows, position, result: see "
     "columns/loops.py"},
    {"walk_records", py_walk_records, METH_VARARGS,
     "walk_records(buffer, start, count, max_record_bytes, base_timestamp, earliest, latest, needs_key, releases_gil) -> "
     "tuple"},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "odradek_kernel", "The work for each record and byte of a batch.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_odradek_kernel(void)
{
    prepare_checksum();
    return PyModule_Create(&definition);
}
