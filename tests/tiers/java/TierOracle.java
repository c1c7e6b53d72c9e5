import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Base64;
import java.util.Iterator;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataCache;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataTopicPartitioner;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogSegmentMetadataSnapshot;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.LocalTieredStorage;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteState;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;
import org.apache.kafka.server.log.remote.storage.RemoteStorageMetrics;

/**
 * Apache's classes of tiered storage behind pipes: tier_oracle.py is the other end.
 *
 * Requests and responses are lines of JSON. A response has "result", or "error" with the text of the exception. Bytes are in
 * base64, and metadata of segments are the bytes of its record.
 */
public final class TierOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final RemoteLogMetadataSerde SERDE = new RemoteLogMetadataSerde();
    private static LocalTieredStorage storage;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode response = JSON.createObjectNode();
            try {
                response.set("result", answer(JSON.readTree(line)));
            } catch (Throwable problem) {
                Throwable cause = problem instanceof InvocationTargetException ? problem.getCause() : problem;
                response.put("error", cause.toString());
            }
            out.println(JSON.writeValueAsString(response));
            out.flush();
        }
    }

    private static JsonNode answer(JsonNode asked) throws Exception {
        return switch (asked.get("do").asText()) {
            case "serialize" -> JSON.getNodeFactory().textNode(text(SERDE.serialize(fromJson(asked.get("event")))));
            case "deserialize" -> toJson(SERDE.deserialize(bytes(asked.get("value"))));
            case "history" -> history(asked);
            case "partition" -> JSON.getNodeFactory().numberNode(
                new RemoteLogMetadataTopicPartitioner(asked.get("count").asInt()).metadataPartition(partition(asked)));
            case "within" -> JSON.getNodeFactory().booleanNode(isWithin(asked));
            case "open" -> open(asked);
            case "copy" -> copy(asked);
            case "fetch" -> fetch(asked);
            case "index" -> index(asked);
            case "delete" -> delete(asked);
            case "traverse" -> traverse();
            case "metrics" -> metrics();
            default -> throw new IllegalArgumentException(asked.toString());
        };
    }

    private static JsonNode metrics() {
        ArrayNode found = JSON.createArrayNode();
        RemoteStorageMetrics.allMetrics().forEach(name -> found.add(name.getMBeanName()));
        return found;
    }

    // Records

    private static TopicIdPartition partition(JsonNode node) {
        return new TopicIdPartition(Uuid.fromString(node.get("topic_id").asText()),
            new TopicPartition(node.get("topic").asText(), node.get("partition").asInt()));
    }

    private static Map<Integer, Long> epochs(JsonNode node) {
        Map<Integer, Long> found = new TreeMap<>();
        node.forEach(pair -> found.put(pair.get(0).asInt(), pair.get(1).asLong()));
        return found;
    }

    private static Optional<CustomMetadata> custom(JsonNode node) {
        JsonNode content = node.get("custom_metadata");
        return content.isNull() ? Optional.empty() : Optional.of(new CustomMetadata(bytes(content)));
    }

    private static RemoteLogMetadata fromJson(JsonNode node) {
        int broker = node.get("broker_id").asInt();
        long time = node.get("event_timestamp_ms").asLong();
        byte state = (byte) node.get("state").asInt();
        return switch (node.get("kind").asText()) {
            case "segment" -> new RemoteLogSegmentMetadata(
                new RemoteLogSegmentId(partition(node), Uuid.fromString(node.get("segment_id").asText())),
                node.get("start_offset").asLong(), node.get("end_offset").asLong(), node.get("max_timestamp_ms").asLong(),
                broker, time, node.get("size_bytes").asInt(), custom(node), RemoteLogSegmentState.forId(state),
                epochs(node.get("epochs")), node.get("txn_index_empty").asBoolean());
            case "update" -> new RemoteLogSegmentMetadataUpdate(
                new RemoteLogSegmentId(partition(node), Uuid.fromString(node.get("segment_id").asText())),
                time, custom(node), RemoteLogSegmentState.forId(state), broker);
            case "delete" -> new RemotePartitionDeleteMetadata(
                partition(node), RemotePartitionDeleteState.forId(state), time, broker);
            case "snapshot" -> new RemoteLogSegmentMetadataSnapshot(
                Uuid.fromString(node.get("segment_id").asText()),
                node.get("start_offset").asLong(), node.get("end_offset").asLong(), node.get("max_timestamp_ms").asLong(),
                broker, time, node.get("size_bytes").asInt(), custom(node), RemoteLogSegmentState.forId(state),
                epochs(node.get("epochs")), node.get("txn_index_empty").asBoolean());
            default -> throw new IllegalArgumentException(node.toString());
        };
    }

    private static ObjectNode toJson(RemoteLogMetadata event) {
        ObjectNode node = JSON.createObjectNode();
        node.put("broker_id", event.brokerId()).put("event_timestamp_ms", event.eventTimestampMs());
        if (event instanceof RemoteLogSegmentMetadata one) {
            node.put("kind", "segment").put("segment_id", one.remoteLogSegmentId().id().toString());
            putRange(node, one.startOffset(), one.endOffset(), one.maxTimestampMs(), one.segmentSizeInBytes(),
                one.isTxnIdxEmpty(), one.segmentLeaderEpochs());
            putCustom(node, one.customMetadata());
            node.put("state", one.state().id());
        } else if (event instanceof RemoteLogSegmentMetadataUpdate one) {
            node.put("kind", "update").put("segment_id", one.remoteLogSegmentId().id().toString());
            putCustom(node, one.customMetadata());
            node.put("state", one.state().id());
        } else if (event instanceof RemotePartitionDeleteMetadata one) {
            node.put("kind", "delete").put("state", one.state().id());
        } else if (event instanceof RemoteLogSegmentMetadataSnapshot one) {
            node.put("kind", "snapshot").put("segment_id", one.segmentId().toString());
            putRange(node, one.startOffset(), one.endOffset(), one.maxTimestampMs(), one.segmentSizeInBytes(),
                one.isTxnIdxEmpty(), one.segmentLeaderEpochs());
            putCustom(node, one.customMetadata());
            node.put("state", one.state().id());
            return node;
        }
        TopicIdPartition partition = event.topicIdPartition();
        return node.put("topic_id", partition.topicId().toString()).put("topic", partition.topic())
            .put("partition", partition.partition());
    }

    private static void putRange(ObjectNode node, long start, long end, long time, int size, boolean txnIndexEmpty,
                                 Map<Integer, Long> epochs) {
        node.put("start_offset", start).put("end_offset", end).put("max_timestamp_ms", time).put("size_bytes", size)
            .put("txn_index_empty", txnIndexEmpty);
        ArrayNode pairs = node.putArray("epochs");
        epochs.forEach((epoch, offset) -> pairs.addArray().add(epoch).add(offset));
    }

    private static void putCustom(ObjectNode node, Optional<CustomMetadata> custom) {
        node.put("custom_metadata", custom.map(content -> text(content.value())).orElse(null));
    }

    // The cache

    /** Applies events to a cache, and answers all questions about epochs and offsets after each one. */
    private static JsonNode history(JsonNode asked) throws Exception {
        RemoteLogMetadataCache cache = new RemoteLogMetadataCache();
        call(cache, "markInitialized");
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode value : asked.get("events")) {
            ObjectNode seen = answers.addObject();
            RemoteLogMetadata event = SERDE.deserialize(bytes(value));
            try {
                if (event instanceof RemoteLogSegmentMetadata one) {
                    call(cache, "addCopyInProgressSegment", one);
                } else {
                    call(cache, "updateRemoteLogSegmentMetadata", event);
                }
            } catch (InvocationTargetException rejected) {
                seen.put("rejected", rejected.getCause().getClass().getSimpleName());
            }
            describe(cache, asked, seen);
        }
        return answers;
    }

    @SuppressWarnings("unchecked")
    private static void describe(RemoteLogMetadataCache cache, JsonNode asked, ObjectNode seen) throws Exception {
        seen.set("all", ids((Iterator<RemoteLogSegmentMetadata>) call(cache, "listAllRemoteLogSegments")));
        ObjectNode listed = seen.putObject("listed");
        ObjectNode highest = seen.putObject("highest");
        ObjectNode found = seen.putObject("found");
        ObjectNode next = seen.putObject("next_with_aborted");
        for (JsonNode each : asked.get("epochs")) {
            int epoch = each.asInt();
            String name = each.asText();
            listed.set(name, ids((Iterator<RemoteLogSegmentMetadata>) call(cache, "listRemoteLogSegments", epoch)));
            highest.put(name, ((Optional<Long>) call(cache, "highestOffsetForEpoch", epoch)).orElse(null));
            ArrayNode ids = found.putArray(name);
            ArrayNode nextIds = next.putArray(name);
            for (JsonNode offset : asked.get("offsets")) {
                Optional<RemoteLogSegmentMetadata> one =
                    (Optional<RemoteLogSegmentMetadata>) call(cache, "remoteLogSegmentMetadata", epoch, offset.asLong());
                ids.add(one.map(TierOracle::id).orElse(null));
                Optional<RemoteLogSegmentMetadata> aborted =
                    (Optional<RemoteLogSegmentMetadata>) call(cache, "nextSegmentWithTxnIndex", epoch, offset.asLong());
                nextIds.add(aborted.map(TierOracle::id).orElse(null));
            }
        }
    }

    private static ArrayNode ids(Iterator<RemoteLogSegmentMetadata> segments) {
        ArrayNode found = JSON.createArrayNode();
        segments.forEachRemaining(one -> found.add(id(one)));
        return found;
    }

    private static String id(RemoteLogSegmentMetadata one) {
        return one.remoteLogSegmentId().id().toString();
    }

    /** Calls a method of the package by its name and number of arguments. */
    private static Object call(Object target, String name, Object... arguments) throws Exception {
        for (Method method : target.getClass().getDeclaredMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                method.setAccessible(true);
                return method.invoke(target, arguments);
            }
        }
        throw new NoSuchMethodException(name);
    }

    private static boolean isWithin(JsonNode asked) throws Exception {
        Method method = RemoteLogManager.class.getDeclaredMethod(
            "isRemoteSegmentWithinLeaderEpochs", RemoteLogSegmentMetadata.class, long.class, NavigableMap.class);
        method.setAccessible(true);
        Method filter = RemoteLogManager.class.getDeclaredMethod("buildFilteredLeaderEpochMap", NavigableMap.class);
        filter.setAccessible(true);
        Object epochs = filter.invoke(null, new TreeMap<>(epochs(asked.get("epochs"))));
        return (boolean) method.invoke(null, segment(asked), asked.get("log_end_offset").asLong(), epochs);
    }

    // The store

    private static RemoteLogSegmentMetadata segment(JsonNode asked) {
        return (RemoteLogSegmentMetadata) SERDE.deserialize(bytes(asked.get("segment")));
    }

    private static JsonNode open(JsonNode asked) {
        storage = new LocalTieredStorage();
        storage.configure(Map.of("dir", asked.get("dir").asText(), "broker.id", 1));
        return JSON.nullNode();
    }

    private static JsonNode copy(JsonNode asked) throws Exception {
        JsonNode transactions = asked.get("transaction_index");
        storage.copyLogSegmentData(segment(asked), new LogSegmentData(
            Path.of(asked.get("log").asText()), Path.of(asked.get("offset_index").asText()),
            Path.of(asked.get("time_index").asText()),
            transactions.isNull() ? Optional.empty() : Optional.of(Path.of(transactions.asText())),
            Path.of(asked.get("producer_snapshot").asText()), ByteBuffer.wrap(bytes(asked.get("leader_epochs")))));
        return JSON.nullNode();
    }

    private static JsonNode fetch(JsonNode asked) throws Exception {
        try (InputStream content = storage.fetchLogSegment(segment(asked), asked.get("position").asInt())) {
            return JSON.getNodeFactory().textNode(text(content.readAllBytes()));
        }
    }

    private static JsonNode index(JsonNode asked) throws Exception {
        try (InputStream content = storage.fetchIndex(segment(asked), IndexType.valueOf(asked.get("type").asText()))) {
            return JSON.getNodeFactory().textNode(text(content.readAllBytes()));
        }
    }

    private static JsonNode delete(JsonNode asked) throws Exception {
        storage.deleteLogSegmentData(segment(asked));
        return JSON.nullNode();
    }

    /** Returns the segments that the store has, by partition; fails for a file that Apache's class does not know. */
    private static JsonNode traverse() throws Exception {
        ObjectNode found = JSON.createObjectNode();
        storage.traverse(new org.apache.kafka.server.log.remote.storage.LocalTieredStorageTraverser() {
            private ArrayNode ids;

            @Override
            public void visitTopicIdPartition(TopicIdPartition partition) {
                ids = found.putArray(partition.topicId() + ":" + partition.topicPartition());
            }

            @Override
            public void visitSegment(org.apache.kafka.server.log.remote.storage.RemoteLogSegmentFileset fileset) {
                ids.add(fileset.getRemoteLogSegmentId().id().toString());
            }
        });
        return found;
    }

    private static String text(byte[] content) {
        return Base64.getEncoder().encodeToString(content);
    }

    private static byte[] bytes(JsonNode node) {
        return Base64.getDecoder().decode(node.asText());
    }
}
