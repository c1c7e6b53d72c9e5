import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.streams.AssignmentRefiner;
import org.apache.kafka.coordinator.group.streams.CurrentAssignmentBuilder;
import org.apache.kafka.coordinator.group.streams.StreamsCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.streams.StreamsGroup;
import org.apache.kafka.coordinator.group.streams.StreamsGroupMember;
import org.apache.kafka.coordinator.group.streams.TasksTuple;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * The reconciliation of members of Kafka's streams groups. Reads a history per line of JSON from standard input, and writes a line to
 * standard output: for each heartbeat the value of the member's current assignment record in base 64, and at the end whether
 * AssignmentRefiner changed the targets (to warm-up tasks).
 */
public final class StreamsMembers {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(json.writeValueAsString(played(json.readTree(line))));
        }
    }

    private static List<String> played(JsonNode history) {
        StreamsGroup group = new StreamsGroup(new LogContext(), new SnapshotRegistry(new LogContext()), "g");
        Map<String, TasksTuple> targets = new HashMap<>();
        List<String> written = new ArrayList<>();
        int epoch = 0;
        for (JsonNode step : history) {
            String member = step.get("member").asText();
            switch (step.get("what").asText()) {
                case "target" -> {
                    targets.put(member, tasks(step.get("tasks")));
                    epoch = step.get("epoch").asInt();
                }
                case "gone" -> {
                    group.removeMember(member);
                    targets.remove(member);
                }
                default -> written.add(stepped(group, member, step, epoch, targets.getOrDefault(member, TasksTuple.EMPTY)));
            }
        }
        boolean isRefined = !AssignmentRefiner.refine(group.members(), targets, Map.of(), null, 2, 10_000).equals(targets);
        written.add(isRefined ? "refined" : "as it is");
        return written;
    }

    private static String stepped(StreamsGroup group, String id, JsonNode step, int epoch, TasksTuple target) {
        StreamsGroupMember before = group.members().get(id);
        if (before == null) {
            before = StreamsGroupMember.Builder.withDefaults(id).setProcessId(step.get("process").asText()).build();
        }
        StreamsGroupMember after = new CurrentAssignmentBuilder(before)
            .withTargetAssignment(epoch, target)
            .withCurrentActiveTaskProcessId(group::currentActiveTaskProcessId)
            .withCurrentStandbyTaskProcessIds(group::currentStandbyTaskProcessIds)
            .withCurrentWarmupTaskProcessIds(group::currentWarmupTaskProcessIds)
            .withOwnedAssignment(step.get("owned").isNull() ? null : tasks(step.get("owned")))
            .build();
        group.updateMember(after);
        ByteBuffer value = MessageUtil.toByteBufferAccessor(
            StreamsCoordinatorRecordHelpers.newStreamsGroupCurrentAssignmentRecord("g", after).value().message(), (short) 0).buffer();
        byte[] bytes = new byte[value.remaining()];
        value.get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }

    /** Returns the tasks of a target record's value in base 64: the version, then the value. */
    private static TasksTuple tasks(JsonNode record) {
        ByteBuffer value = ByteBuffer.wrap(Base64.getDecoder().decode(record.asText()));
        short version = value.getShort();
        return TasksTuple.fromTargetAssignmentRecord(new StreamsGroupTargetAssignmentMemberValue(new ByteBufferAccessor(value), version));
    }
}
