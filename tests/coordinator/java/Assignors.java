import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.HashSet;
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

/**
 * Kafka's assignors of consumer and share groups: a line of JSON for each group on standard input, a line with the assignment for each on
 * standard output. Members are taken in the order of their ids.
 */
public final class Assignors {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(json.writeValueAsString(assigned(json, json.readTree(line))));
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
}
