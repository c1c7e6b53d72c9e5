import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/**
 * Apache's own codecs behind pipes: codec_oracle.py is the other end.
 *
 * A request is a byte and its content. A response is a byte, 0 for a result and 1 for an error text, and one or two
 * blocks of bytes, each preceded by its length. Random messages are generated from the version's generated SCHEMA, then
 * decoded and encoded by the generated class, so that both of Apache's definitions of a version are used.
 */
public final class CodecOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int MOST_ELEMENTS = 3;
    private static final int MOST_DEPTH_WITH_ARRAYS = 5;
    // Apache's SCHEMA of this nullable tagged structure lacks the varint for null or not null. The generated code,
    // which writes the bytes on disk, has it. So this is exchanged only in the other direction.
    private static final String WRONG_IN_SCHEMA = "classic_member_metadata";
    private static final String[] TEXTS = {"", "a", "topic-1", "Grüße", "日本語", "😀 x", "y".repeat(127), "z".repeat(300)};

    private final DataInputStream in;
    private final DataOutputStream out;

    private CodecOracle(DataInputStream in, DataOutputStream out) {
        this.in = in;
        this.out = out;
    }

    public static void main(String[] args) throws IOException {
        new CodecOracle(
            new DataInputStream(new BufferedInputStream(System.in)),
            new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16))
        ).serve();
    }

    private void serve() throws IOException {
        while (true) {
            int question;
            try {
                question = in.readByte();
            } catch (EOFException closed) {
                return;
            }
            answer(question);
            out.flush();
        }
    }

    private void answer(int question) throws IOException {
        // The whole request is read before anything can fail, so that the next one starts at the right position.
        String name = in.readUTF();
        short version = in.readShort();
        long seed = in.readLong();
        byte[] data = in.readNBytes(in.readInt());
        byte[][] blocks;
        try {
            blocks = switch (question) {
                case 'E' -> message(name, version, ByteBuffer.wrap(data));
                case 'R' -> message(name, version, randomBytes(name, version, new Random(seed)));
                case 'G' -> errorResponse(name, version, (short) seed, ByteBuffer.wrap(data));
                case 'A' -> new byte[][] {JSON.writeValueAsBytes(apis())};
                case 'X' -> new byte[][] {JSON.writeValueAsBytes(errors())};
                case 'B' -> batches(data);
                case 'C' -> randomBatch(CompressionType.forName(name), new Random(seed));
                default -> throw new IllegalArgumentException("no question " + question);
            };
        } catch (Throwable problem) {
            Throwable cause = problem instanceof InvocationTargetException ? problem.getCause() : problem;
            out.writeByte(1);
            block(cause.toString().getBytes());
            return;
        }
        out.writeByte(0);
        for (byte[] each : blocks) {
            block(each);
        }
    }

    private void block(byte[] data) throws IOException {
        out.writeInt(data.length);
        out.write(data);
    }

    // Messages

    private static byte[][] message(String name, short version, ByteBuffer data) throws Exception {
        Class<?> generated = Class.forName(name);
        Message read = (Message) generated.getConstructor(Readable.class, short.class)
            .newInstance(new ByteBufferAccessor(data), version);
        if (data.hasRemaining()) {
            throw new IllegalStateException(data.remaining() + " bytes left");
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written = ByteBuffer.allocate(read.size(cache, version));
        read.write(new ByteBufferAccessor(written), cache, version);
        Class<?> converter = Class.forName(name + "JsonConverter");
        JsonNode shown = (JsonNode) converter.getMethod("write", generated, short.class).invoke(null, read, version);
        return new byte[][] {written.array(), JSON.writeValueAsBytes(shown)};
    }

    /** The response that Apache's request class gives for an exception. */
    private static byte[][] errorResponse(String api, short version, short error, ByteBuffer data) throws Exception {
        AbstractRequest request =
            AbstractRequest.parseRequest(ApiKeys.valueOf(api), version, new ByteBufferAccessor(data)).request;
        AbstractResponse response = request.getErrorResponse(0, Errors.forCode(error).exception());
        if (response == null) {
            throw new IllegalStateException("no response");
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written = ByteBuffer.allocate(response.data().size(cache, version));
        response.data().write(new ByteBufferAccessor(written), cache, version);
        return new byte[][] {written.array()};
    }

    private static ByteBuffer randomBytes(String name, short version, Random random) throws Exception {
        Schema schema = ((Schema[]) Class.forName(name).getField("SCHEMAS").get(null))[version];
        Struct made = struct(schema, random, 0);
        ByteBuffer written = ByteBuffer.allocate(made.sizeOf());
        made.writeTo(written);
        return written.flip();
    }

    private static Struct struct(Schema schema, Random random, int depth) {
        Struct made = new Struct(schema);
        for (BoundField field : schema.fields()) {
            made.set(field, value(field.def.type, random, depth + 1));
        }
        return made;
    }

    private static Object value(Type type, Random random, int depth) {
        if (type instanceof TaggedFields) {
            return tags((TaggedFields) type, random, depth);
        }
        if (type.isNullable() && random.nextInt(4) == 0) {
            return null;
        }
        Optional<Type> element = type.arrayElementType();
        if (element.isPresent()) {
            return array(element.get(), random, depth);
        }
        return type instanceof Schema ? struct((Schema) type, random, depth) : scalar(type.toString(), random);
    }

    private static Object[] array(Type element, Random random, int depth) {
        Object[] made = new Object[depth > MOST_DEPTH_WITH_ARRAYS ? 0 : random.nextInt(MOST_ELEMENTS + 1)];
        for (int i = 0; i < made.length; i++) {
            made[i] = value(element, random, depth + 1);
        }
        return made;
    }

    private static TreeMap<Integer, Object> tags(TaggedFields type, Random random, int depth) {
        TreeMap<Integer, Object> made = new TreeMap<>();
        type.fields().forEach((tag, field) -> {
            if (random.nextBoolean() && !field.name.equals(WRONG_IN_SCHEMA)) {
                made.put(tag, value(field.type, random, depth + 1));
            }
        });
        if (random.nextInt(6) == 0) {
            int tag = 100 + random.nextInt(40_000);
            made.put(tag, new RawTaggedField(tag, bytes(random)));
        }
        return made;
    }

    private static Object scalar(String type, Random random) {
        boolean extreme = random.nextInt(8) == 0;
        return switch (type) {
            case "BOOLEAN" -> random.nextBoolean();
            case "INT8" -> (byte) (extreme ? Byte.MIN_VALUE : random.nextInt());
            case "INT16" -> (short) (extreme ? Short.MIN_VALUE : random.nextInt());
            case "UINT16" -> extreme ? 0xffff : random.nextInt(0x10000);
            case "INT32" -> extreme ? Integer.MIN_VALUE : random.nextInt() >> random.nextInt(32);
            case "UINT32", "UNSIGNED_INT32" -> extreme ? 0xffffffffL : random.nextInt() & 0xffffffffL;
            case "INT64" -> extreme ? Long.MAX_VALUE : random.nextLong() >> random.nextInt(64);
            case "FLOAT64" -> extreme ? Double.NEGATIVE_INFINITY : random.nextGaussian() * 1e9;
            case "UUID" -> extreme ? Uuid.ZERO_UUID : new Uuid(random.nextLong(), random.nextLong());
            case "STRING", "COMPACT_STRING", "NULLABLE_STRING", "COMPACT_NULLABLE_STRING" ->
                TEXTS[random.nextInt(TEXTS.length)];
            case "BYTES", "COMPACT_BYTES", "NULLABLE_BYTES", "COMPACT_NULLABLE_BYTES" -> ByteBuffer.wrap(bytes(random));
            case "RECORDS", "COMPACT_RECORDS", "NULLABLE_RECORDS", "COMPACT_NULLABLE_RECORDS" ->
                MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(random)));
            default -> throw new IllegalArgumentException("no random " + type);
        };
    }

    private static byte[] bytes(Random random) {
        byte[] made = new byte[random.nextInt(5) == 0 ? 200 : random.nextInt(20)];
        random.nextBytes(made);
        return made;
    }

    // The lists of APIs and errors

    private static ArrayNode apis() {
        ArrayNode all = JSON.createArrayNode();
        for (ApiKeys api : ApiKeys.values()) {
            ObjectNode shown = all.addObject();
            shown.put("key", api.id).put("name", api.name);
            shown.put("low", api.messageType.lowestSupportedVersion());
            shown.put("high", api.messageType.highestSupportedVersion(true));
            shown.put("stable", api.messageType.highestSupportedVersion(false));
            ArrayNode listeners = shown.putArray("listeners");
            api.messageType.listeners().forEach(listener -> listeners.add(listener.name().toLowerCase()));
            ArrayNode headers = shown.putArray("headers");
            for (short v = api.messageType.lowestSupportedVersion(); v <= api.messageType.highestSupportedVersion(true); v++) {
                headers.addArray().add(api.requestHeaderVersion(v)).add(api.responseHeaderVersion(v));
            }
        }
        return all;
    }

    private static ArrayNode errors() {
        ArrayNode all = JSON.createArrayNode();
        for (Errors error : Errors.values()) {
            all.addArray().add(error.code()).add(error.name()).add(error.exception() instanceof RetriableException);
        }
        return all;
    }

    // Record batches

    private static byte[][] batches(byte[] data) throws Exception {
        ArrayNode all = JSON.createArrayNode();
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
            batch.ensureValid();
            ObjectNode shown = all.addObject();
            shown.put("base_offset", batch.baseOffset()).put("last_offset", batch.lastOffset());
            shown.put("next_offset", batch.nextOffset()).put("size", batch.sizeInBytes());
            shown.put("leader_epoch", batch.partitionLeaderEpoch()).put("magic", batch.magic());
            shown.put("crc", batch.checksum()).put("compression", batch.compressionType().id);
            shown.put("timestamp_type", batch.timestampType().id).put("max_timestamp", batch.maxTimestamp());
            shown.put("producer_id", batch.producerId()).put("producer_epoch", batch.producerEpoch());
            shown.put("base_sequence", batch.baseSequence()).put("last_sequence", batch.lastSequence());
            shown.put("is_transactional", batch.isTransactional()).put("is_control", batch.isControlBatch());
            shown.put("record_count", batch.countOrNull());
            shown.put("delete_horizon", batch.deleteHorizonMs().isPresent() ? batch.deleteHorizonMs().getAsLong() : null);
            ArrayNode records = shown.putArray("records");
            for (Record record : batch) {
                record(records.addObject(), record);
            }
        }
        return new byte[][] {JSON.writeValueAsBytes(all)};
    }

    private static void record(ObjectNode shown, Record record) {
        shown.put("offset", record.offset()).put("timestamp", record.timestamp());
        shown.put("key", array(record.key())).put("value", array(record.value()));
        ArrayNode headers = shown.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
    }

    private static byte[] array(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return copy;
    }

    private static byte[][] randomBatch(CompressionType type, Random random) throws Exception {
        boolean producer = random.nextBoolean();
        boolean appendTime = random.nextInt(4) == 0;
        long base = random.nextInt(1_000_000);
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(1 << 12), RecordBatch.MAGIC_VALUE_V2, Compression.of(type).build(),
            appendTime ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME, base,
            appendTime ? 1_700_000_000_000L : RecordBatch.NO_TIMESTAMP,
            producer ? random.nextLong() >>> 1 : -1, (short) (producer ? random.nextInt(1000) : -1),
            producer ? random.nextInt() >>> 1 : -1, producer && random.nextBoolean(), random.nextInt(100));
        int count = 1 + random.nextInt(random.nextInt(10) == 0 ? 500 : 5);
        for (int i = 0; i < count; i++) {
            long timestamp = 1_600_000_000_000L + random.nextInt() / (1 + random.nextInt(1000));
            builder.appendWithOffset(base + i, timestamp, maybe(random), maybe(random), headers(random));
        }
        byte[] written = array(builder.build().buffer());
        return new byte[][] {written, batches(written)[0]};
    }

    private static byte[] maybe(Random random) {
        return random.nextInt(5) == 0 ? null : bytes(random);
    }

    private static Header[] headers(Random random) {
        Header[] made = new Header[random.nextInt(4) == 0 ? random.nextInt(4) : 0];
        for (int i = 0; i < made.length; i++) {
            made[i] = new RecordHeader(TEXTS[random.nextInt(TEXTS.length)], maybe(random));
        }
        return made;
    }
}
