/* The compiled kernel of Odradek: the work for each record and each byte of a produced batch.
 *
 * Without this module, Odradek does the same in Python. This file has the functions that Python calls: they parse arguments,
 * and call records.c, gzip.c, lz4.c, snappy.c, zstd.c, validation.c and small_log.c.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "codecs.h"
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
    {"decompress_gzip", py_decompress_gzip, METH_VARARGS,
     "decompress_gzip(data, out) -> as decompress_lz4; -3 before load_isal, -1 also for members that a library must decompress"},
    {"decompress_lz4", py_decompress_lz4, METH_VARARGS,
     "decompress_lz4(data, out) -> bytes written, -1 if data is damaged, -2 if out is too small"},
    {"decompress_snappy", py_decompress_snappy, METH_VARARGS, "decompress_snappy(data, out) -> as decompress_lz4"},
    {"decompress_zstd", py_decompress_zstd, METH_VARARGS,
     "decompress_zstd(data, out) -> as decompress_lz4; -3 before set_zstd_functions, -1 also for frames that a library must "
     "decompress"},
    {"find_record", py_find_record, METH_VARARGS,
     "find_record(buffer, count, base_timestamp, least_timestamp, least_offset) -> tuple or None"},
    {"load_isal", py_load_isal, METH_VARARGS,
     "load_isal(path) -> bool: whether decompress_gzip uses ISA-L in the shared library at the path"},
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
