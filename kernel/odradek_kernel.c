/* The kernel of Odradek, compiled: what is done for each record and each byte of a produced batch.
 *
 * Odradek does the same in Python where this module is not installed. Here are the functions that Python calls; the work
 * is in records.c, gzip.c, lz4.c, snappy.c, zstd.c and judge.c.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "codecs.h"
#include "judge.h"
#include "records.h"

/* A thread that decompresses less keeps the interpreter's lock: to take it back may cost more. */
enum { LEAST_RELEASED_BYTES = 64 << 10 };

static PyObject *walk(PyObject *module, PyObject *arguments)
{
    PyObject *buffer;
    Py_buffer view;
    Py_ssize_t start;
    long long count, most_bytes, base, earliest, latest;
    int needs_key, releases, fault;
    Found found;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OnLLLLLpp", &buffer, &start, &count, &most_bytes, &base, &earliest, &latest,
                          &needs_key, &releases))
        return NULL;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if (start < 0 || start > view.len) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_ValueError, "the records begin outside of the buffer");
        return NULL;
    }
    found = (Found){most_bytes, base, earliest, latest, needs_key, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    const uint8_t *bytes = (const uint8_t *)view.buf;
    if (releases) {
        Py_BEGIN_ALLOW_THREADS
        fault = walk_records(bytes + start, bytes + view.len, count, &found);
        Py_END_ALLOW_THREADS
    } else {
        fault = walk_records(bytes + start, bytes + view.len, count, &found);
    }
    PyBuffer_Release(&view);
    return Py_BuildValue("(iLLLL)", fault, (long long)found.max_timestamp, (long long)found.disordered,
                         (long long)found.keyless, (long long)found.out_of_range);
}

static PyObject *find(PyObject *module, PyObject *arguments)
{
    PyObject *buffer;
    Py_buffer view;
    long long count, base, least_timestamp, least_offset;
    int fault;
    Found found;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OLLLL", &buffer, &count, &base, &least_timestamp, &least_offset))
        return NULL;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    found = (Found){INT32_MAX, base, INT64_MIN, INT64_MAX, 0, -1, 0, 0, 0, 1, least_timestamp, least_offset, 0, 0};
    const uint8_t *bytes = (const uint8_t *)view.buf;
    Py_BEGIN_ALLOW_THREADS
    fault = walk_records(bytes, bytes + view.len, count, &found);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    if (fault != WHOLE || found.seeks)
        Py_RETURN_NONE;
    return Py_BuildValue("(LL)", (long long)found.offset, (long long)found.timestamp);
}

typedef int64_t (*Decompressor)(const uint8_t *, size_t, uint8_t *, size_t);

static PyObject *decompressed_by(Decompressor decompress, PyObject *arguments)
{
    PyObject *data, *out;
    Py_buffer packed, room;
    int64_t made;
    if (!PyArg_ParseTuple(arguments, "OO", &data, &out))
        return NULL;
    if (PyObject_GetBuffer(data, &packed, PyBUF_SIMPLE) < 0)
        return NULL;
    if (PyObject_GetBuffer(out, &room, PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&packed);
        return NULL;
    }
    if (packed.len >= LEAST_RELEASED_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        made = decompress(packed.buf, (size_t)packed.len, room.buf, (size_t)room.len);
        Py_END_ALLOW_THREADS
    } else {
        made = decompress(packed.buf, (size_t)packed.len, room.buf, (size_t)room.len);
    }
    PyBuffer_Release(&room);
    PyBuffer_Release(&packed);
    return PyLong_FromLongLong(made);
}

static PyObject *lz4_into(PyObject *module, PyObject *arguments)
{
    (void)module;
    return decompressed_by(decompress_lz4, arguments);
}

static PyObject *snappy_into(PyObject *module, PyObject *arguments)
{
    (void)module;
    return decompressed_by(decompress_snappy, arguments);
}

static PyObject *use_zstd_functions(PyObject *module, PyObject *arguments)
{
    unsigned long long create, decompress, frame_bytes, is_error, error_of;
    ZstdAddresses addresses;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "KKKKK", &create, &decompress, &frame_bytes, &is_error, &error_of))
        return NULL;
    if (!create || !decompress || !frame_bytes || !is_error || !error_of) {
        PyErr_SetString(PyExc_ValueError, "an address is 0");
        return NULL;
    }
    addresses = (ZstdAddresses){(uintptr_t)create, (uintptr_t)decompress, (uintptr_t)frame_bytes, (uintptr_t)is_error,
                                (uintptr_t)error_of};
    if (!use_zstd(&addresses))
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *use_isal_functions(PyObject *module, PyObject *arguments)
{
    const char *path;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "s", &path))
        return NULL;
    return PyBool_FromLong(use_isal(path));
}

/* For decompressors whose context is shared: the interpreter's lock is kept. */
static PyObject *decompressed_alone_by(Decompressor decompress, PyObject *arguments)
{
    PyObject *data, *out;
    Py_buffer packed, room;
    int64_t made;
    if (!PyArg_ParseTuple(arguments, "OO", &data, &out))
        return NULL;
    if (PyObject_GetBuffer(data, &packed, PyBUF_SIMPLE) < 0)
        return NULL;
    if (PyObject_GetBuffer(out, &room, PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&packed);
        return NULL;
    }
    made = decompress(packed.buf, (size_t)packed.len, room.buf, (size_t)room.len);
    PyBuffer_Release(&room);
    PyBuffer_Release(&packed);
    return PyLong_FromLongLong(made);
}

static PyObject *gzip_into(PyObject *module, PyObject *arguments)
{
    (void)module;
    return decompressed_alone_by(decompress_gzip, arguments);
}

static PyObject *zstd_into(PyObject *module, PyObject *arguments)
{
    (void)module;
    return decompressed_alone_by(decompress_zstd, arguments);
}

/* The numbers that `judge` takes after the two buffers, in their order. */
enum {
    VERSION, NOW, BEFORE, AFTER, MOST_RECORD_BYTES, NEEDS_KEY, CHECKED_CODECS, RECORDS_LEFT, PACKED_LEFT, BASE_OFFSET,
    LEADER_EPOCH, NUMBERS
};

static PyObject *judged(const Header *header, const int64_t *numbers, int64_t made)
{
    const int64_t fields[] = {
        numbers[BASE_OFFSET], header->length, numbers[LEADER_EPOCH], header->magic, header->crc, header->attributes,
        header->last_offset_delta, header->base_timestamp, header->max_timestamp, header->producer_id,
        header->producer_epoch, header->base_sequence, header->record_count, made,
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

static PyObject *judge_batch(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    Py_buffer batch, room;
    Header header;
    Rules rules;
    int64_t numbers[NUMBERS], made;
    int index;
    (void)module;
    if (count != NUMBERS + 2) {
        PyErr_SetString(PyExc_TypeError, "judge takes two buffers and eleven numbers");
        return NULL;
    }
    for (index = 0; index < NUMBERS; index++) {
        numbers[index] = PyLong_AsLongLong(arguments[index + 2]);
        if (numbers[index] == -1 && PyErr_Occurred())
            return NULL;
    }
    if (PyObject_GetBuffer(arguments[0], &batch, PyBUF_SIMPLE) < 0)
        return NULL;
    if (PyObject_GetBuffer(arguments[1], &room, PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&batch);
        return NULL;
    }
    rules.version = numbers[VERSION];
    rules.earliest = numbers[NOW] - numbers[BEFORE];
    rules.latest = numbers[AFTER] > INT64_MAX - numbers[NOW] ? INT64_MAX : numbers[NOW] + numbers[AFTER];
    rules.most_record_bytes = numbers[MOST_RECORD_BYTES];
    rules.needs_key = numbers[NEEDS_KEY] != 0;
    rules.checked_codecs = numbers[CHECKED_CODECS];
    rules.records_left = numbers[RECORDS_LEFT];
    rules.packed_left = numbers[PACKED_LEFT];
    rules.room = room.buf;
    rules.room_bytes = (size_t)room.len;
    made = judge(batch.buf, (size_t)batch.len, &rules, &header);
    PyBuffer_Release(&room);
    PyBuffer_Release(&batch);
    if (made == NOT_PLAIN)
        Py_RETURN_NONE;
    return judged(&header, numbers, made);
}

static PyObject *trim(PyObject *module, PyObject *none)
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
    {"find", find, METH_VARARGS, "find(buffer, count, base_timestamp, least_timestamp, least_offset) -> tuple or None"},
    {"gzip_into", gzip_into, METH_VARARGS,
     "gzip_into(data, room) -> as lz4_into; -3 before use_isal, -1 also for members that are left to a library"},
    {"judge", (PyCFunction)(void (*)(void))judge_batch, METH_FASTCALL,
     "judge(batch, room, version, now_ms, before_ms, after_ms, most_record_bytes, needs_key, checked_codecs, records_left, "
     "packed_left, base_offset, leader_epoch) -> header and decompressed bytes, or None"},
    {"lz4_into", lz4_into, METH_VARARGS, "lz4_into(data, room) -> bytes made, -1 if damaged, -2 if the room is too small"},
    {"snappy_into", snappy_into, METH_VARARGS, "snappy_into(data, room) -> as lz4_into"},
    {"trim", trim, METH_NOARGS, "trim() -> None: glibc gives free memory back to the system; nothing with another C library"},
    {"use_isal", use_isal_functions, METH_VARARGS,
     "use_isal(path) -> bool: whether the shared library at the path has functions of ISA-L that gzip_into can use"},
    {"use_zstd", use_zstd_functions, METH_VARARGS,
     "use_zstd(create, decompress, frame_bytes, is_error, error_of) -> None: addresses of libzstd's functions"},
    {"walk", walk, METH_VARARGS,
     "walk(buffer, start, count, most_record_bytes, base_timestamp, earliest, latest, needs_key, releases_gil) -> tuple"},
    {"zstd_into", zstd_into, METH_VARARGS,
     "zstd_into(data, room) -> as lz4_into; -3 before use_zstd, -1 also for frames that are left to a library"},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "odradek_kernel", "What is done for each record and byte of a batch.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_odradek_kernel(void)
{
    return PyModule_Create(&definition);
}
