import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * Kafka's assignors of consumer, share and streams groups. Reads a group per line of JSON from standard input, and writes its assignment
 * as a line to standard output. Members are passed in the order of their ids.
 */
public final class Assignors {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode group = json.readTree(line);
            boolean isStreams = group.get("assignor").asText().equals("sticky");
            System.out.println(json.writeValueAsString(isStreams ? tasks(json, group) : assigned(json, group)));
        }
    }

    private static JsonNode assigned(ObjectMapper json, JsonNode group) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new TreeMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        group.get("members").fields().forEachRemaining(member -> {
            Set<Uuid> topics = new HashSet<>();
            member.getValue().get("topics").forEach(topic -> topics.add(Uuid.fromString(topic.asText())));
            Map<Uuid, Set<Integer>> current = new HashMap<>();
            member.getValue().get("current").fields().forEachRemaining(topic -> {
                Uuid id = Uuid.fromString(topic.getKey());
                topic.getValue().forEach(index -> {
                    current.computeIfAbsent(id, none -> new HashSet<>()).add(index.asInt());
                    owners.computeIfAbsent(id, none -> new HashMap<>()).put(index.asInt(), member.getKey());
                });
            });
            JsonNode instance = member.getValue().get("instance");
            Optional<String> instanceId = instance.isNull() ? Optional.empty() : Optional.of(instance.asText());
            members.put(member.getKey(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instanceId, topics, new Assignment(current)));
        });
        boolean alike = members.values().stream().map(one -> one.subscribedTopicIds()).distinct().count() <= 1;
        SubscriptionType type = alike ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return group.get("counts").get(topic.toString()).asInt();
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
        PartitionAssignor assignor = switch (group.get("assignor").asText()) {
            case "range" -> new RangeAssignor();
            case "simple" -> new SimpleAssignor();
            default -> new UniformAssignor();
        };
        GroupAssignment made = assignor.assign(new GroupSpecImpl(members, type, owners), describer);
        ObjectNode answer = json.createObjectNode();
        made.members().forEach((member, assignment) -> {
            ObjectNode topics = answer.putObject(member);
            assignment.partitions().forEach((topic, partitions) -> {
                ArrayNode indexes = topics.putArray(topic.toString());
                new TreeSet<>(partitions).forEach(indexes::add);
            });
        });
        return answer;
    }

    private static JsonNode tasks(ObjectMapper json, JsonNode group) {
        Map<String, MemberMetadataAndStateImpl> members = new TreeMap<>();
        group.get("members").fields().forEachRemaining(member -> {
            JsonNode told = member.getValue();
            Map<String, Map<Integer, Long>> offsets = new HashMap<>();
            told.get("offsets").forEach(one -> offsets.computeIfAbsent(one.get(0).asText(), none -> new HashMap<>())
                .put(one.get(1).asInt(), one.get(2).asLong()));
            members.put(member.getKey(), new MemberMetadataAndStateImpl(
                Optional.empty(), Optional.empty(), told.get("process").asText(), Map.of(), partitions(told.get("active")),
                partitions(told.get("standby")), partitions(told.get("warmup")), offsets, Map.of()));
        });
        JsonNode subtopologies = group.get("subtopologies");
        TopologyDescriber describer = new TopologyDescriber() {
            @Override
            public List<String> subtopologies() {
                Set<String> names = new TreeSet<>();
                subtopologies.fieldNames().forEachRemaining(names::add);
                return List.copyOf(names);
            }

            @Override
            public int maxNumInputPartitions(String subtopology) {
                return subtopologies.get(subtopology).get("tasks").asInt();
            }

            @Override
            public boolean isStateful(String subtopology) {
                return subtopologies.get(subtopology).get("stateful").asBoolean();
            }
        };
        AssignmentConfigsImpl configs = new AssignmentConfigsImpl(group.get("replicas").asInt(), List.of());
        ObjectNode answer = json.createObjectNode();
        var specification = new org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl(members, configs);
        new StickyTaskAssignor().assign(specification, describer).members().forEach((member, made) -> {
            ObjectNode roles = answer.putObject(member);
            roles.set("active", pairs(json, made.activeTasks()));
            roles.set("standby", pairs(json, made.standbyTasks()));
        });
        return answer;
    }

    /** Returns subtopology -> partitions, from pairs of both. */
    private static Map<String, Set<Integer>> partitions(JsonNode tasks) {
        Map<String, Set<Integer>> found = new HashMap<>();
        tasks.forEach(task -> found.computeIfAbsent(task.get(0).asText(), none -> new HashSet<>()).add(task.get(1).asInt()));
        return found;
    }

    private static ArrayNode pairs(ObjectMapper json, Map<String, Set<Integer>> tasks) {
        ArrayNode pairs = json.createArrayNode();
        new TreeMap<>(tasks).forEach((subtopology, partitions) ->
            new TreeSet<>(partitions).forEach(partition -> pairs.addArray().add(subtopology).add(partition)));
        return pairs;
    }
}
