// Stands in the place of the class of Apache's test jar that starts a controller and brokers in its JVM: Apache's other
// harnesses and tests above it run as they are, against nodes of Odradek. Python starts and stops these, and answers what a
// test looks up in a broker's memory (published.py, at the port of the property `nodes`). What no test asks is not there.

package kafka.server;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Stream;
import kafka.cluster.Partition;
import kafka.coordinator.transaction.CoordinatorEpochAndTxnMetadata;
import kafka.coordinator.transaction.TransactionCoordinator;
import kafka.coordinator.transaction.TransactionStateManager;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.utils.Logging;
import kafka.utils.TestInfoUtils$;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.coordinator.transaction.TransactionMetadata;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.server.HostedPartition;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.common.TransactionVersion;
import org.apache.kafka.server.fault.MockFaultHandler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.params.provider.Arguments;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

public abstract class QuorumTestHarness implements Logging {
    private TestInfo testInfo;
    private String logIdent;
    private Nodes nodes;
    private MockFaultHandler faults;
    // Those of the last test. A test whose end fails in a harness above does not get to this one's.
    private static Nodes open;

    public static Stream<Arguments> getTestGroupProtocolParametersAll() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersAll();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersClassicGroupProtocolOnly() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersClassicGroupProtocolOnly();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersConsumerGroupProtocolOnly() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersConsumerGroupProtocolOnly();
    }

    @Override
    public String logIdent() { return logIdent; }

    @Override
    public void logIdent_$eq(String text) { logIdent = text; }

    public SecurityProtocol controllerListenerSecurityProtocol() { return SecurityProtocol.PLAINTEXT; }

    @SuppressWarnings("unchecked")
    public scala.collection.Seq<Properties> kraftControllerConfigs(TestInfo info) { return (Seq<Properties>) (Object) Nil$.MODULE$; }

    public MetadataVersion metadataVersion() { return MetadataVersion.latestTesting(); }

    public Option<GroupProtocol> maybeGroupProtocolSpecified() {
        return TestInfoUtils$.MODULE$.maybeGroupProtocolSpecified(testInfo);
    }

    public GroupProtocol groupProtocolFromTestParameters() { return maybeGroupProtocolSpecified().get(); }

    @SuppressWarnings("unchecked")
    public scala.collection.Seq<ControllerServer> controllerServers() { return (Seq<ControllerServer>) (Object) Nil$.MODULE$; }

    @BeforeEach
    public void setUp(TestInfo info) {
        testInfo = info;
        faults = new MockFaultHandler("brokers");
        if (open != null) open.close();
        open = nodes = new Nodes(Integer.getInteger("nodes"));
        String controller = Nodes.encoded((Map<?, ?>) kraftControllerConfigs(info).head());
        nodes.ask("begin", TestInfoUtils$.MODULE$.isTransactionV2Enabled(info) ? "2" : "1", controller);
    }

    @AfterEach
    public void tearDown() {
        nodes.ask("end");
        nodes.close();
    }

    public KafkaBroker createBroker(KafkaConfig config, Time time, boolean startup, Option<String> prefix) {
        NodeView broker = Views.make(NodeView.class);
        broker.config = config;
        broker.nodes = nodes;
        broker.faults = faults;
        if (startup) broker.startup();
        return broker;
    }

    public MockFaultHandler faultHandler() { return faults; }

    public Time createBroker$default$2() { return Time.SYSTEM; }

    public boolean createBroker$default$3() { return true; }

    public Option<String> createBroker$default$4() { return Option.empty(); }

    // The nodes of a test whose cluster is an argument (RaftClusterInvocationContext.java).
    public static class Cluster {
        private final Nodes nodes = new Nodes(Integer.getInteger("nodes"));
        private final Map<Integer, KafkaBroker> brokers = new HashMap<>();

        public void begin(int count, Map<String, String> properties) {
            nodes.ask("begin", "2", Nodes.encoded(properties));
            for (int id = 0; id < count; id++) {
                NodeView view = Views.make(NodeView.class);
                view.nodes = nodes;
                view.start(id, properties);
                brokers.put(id, view);
            }
        }

        public Map<Integer, KafkaBroker> brokers() { return brokers; }

        public String bootstrapServers() {
            List<String> addresses = new ArrayList<>();
            for (KafkaBroker broker : brokers.values()) addresses.add("127.0.0.1:" + broker.boundPort(null));
            return String.join(",", addresses);
        }

        public void end() {
            nodes.ask("end");
            nodes.close();
        }
    }
}

// The connection to the program that has the nodes: a line for a request, and one for its answer.
class Nodes {
    private final Socket socket;
    private final BufferedReader answers;

    Nodes(int port) {
        try {
            socket = new Socket(InetAddress.getLoopbackAddress(), port);
            answers = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    // Properties as one word.
    static String encoded(Map<?, ?> properties) {
        StringBuilder lines = new StringBuilder();
        for (Map.Entry<?, ?> one : properties.entrySet()) lines.append(one.getKey()).append("=").append(one.getValue()).append("\n");
        return Base64.getEncoder().encodeToString(lines.toString().getBytes(StandardCharsets.UTF_8));
    }

    static String[] decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8).split("\n");
    }

    synchronized String ask(Object... words) {
        try {
            StringBuilder line = new StringBuilder();
            for (Object word : words) line.append(line.length() == 0 ? "" : " ").append(word);
            socket.getOutputStream().write(line.append("\n").toString().getBytes(StandardCharsets.UTF_8));
            String answer = answers.readLine();
            if (answer == null || answer.startsWith("error")) throw new IllegalStateException(words[0] + ": " + answer);
            return answer;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    void close() {
        try {
            socket.close();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}

// Makes views without the constructors of Apache's classes, which would start a broker.
class Views {
    static <T> T make(Class<T> type) {
        try {
            Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return type.cast(((sun.misc.Unsafe) field.get(null)).allocateInstance(type));
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}

class NodeView extends BrokerServer {
    KafkaConfig config;
    Nodes nodes;
    MockFaultHandler faults;
    int id;
    int port;

    NodeView() { super(null); }

    @Override
    public KafkaConfig config() { return config; }

    @Override
    public void startup() { start(config.brokerId(), config.originals()); }

    // A broker that does not start is a fault, as in Apache's harness.
    void start(int node, Map<?, ?> properties) {
        id = node;
        String answer = nodes.ask("start", id, Nodes.encoded(properties));
        if (answer.startsWith("refused")) faults.handleFault("startup", new ConfigException(answer));
        else port = Integer.parseInt(answer);
    }

    @Override
    public void shutdown() { nodes.ask("stop", id); }

    @Override
    public void shutdown(Duration timeout) { shutdown(); }

    @Override
    public void awaitShutdown() { }

    @Override
    public int boundPort(ListenerName name) { return port; }

    @Override
    public SocketServer socketServer() {
        SocketView view = Views.make(SocketView.class);
        view.port = port;
        return view;
    }

    List<Integer> leaders(String topic) {
        List<Integer> found = new ArrayList<>();
        for (String leader : nodes.ask("leaders", id, topic).split(" ")) if (!leader.isEmpty()) found.add(Integer.parseInt(leader));
        return found;
    }

    @Override
    public KRaftMetadataCache metadataCache() {
        MetadataView view = Views.make(MetadataView.class);
        view.node = this;
        return view;
    }

    @Override
    public ReplicaManager replicaManager() {
        ReplicasView view = Views.make(ReplicasView.class);
        view.node = this;
        return view;
    }

    @Override
    public LogManager logManager() {
        LogsView view = Views.make(LogsView.class);
        view.node = this;
        return view;
    }

    @Override
    public GroupCoordinator groupCoordinator() {
        Properties configs = new Properties();
        configs.put("cleanup.policy", "compact");
        configs.put("segment.bytes", config.getInt("offsets.topic.segment.bytes").toString());
        return (GroupCoordinator) Proxy.newProxyInstance(GroupCoordinator.class.getClassLoader(), new Class<?>[] {GroupCoordinator.class},
            (proxy, method, arguments) -> {
                if (method.getName().equals("groupMetadataTopicConfigs")) return configs;
                throw new UnsupportedOperationException(method.getName());
            });
    }

    @Override
    public TransactionCoordinator transactionCoordinator() {
        CoordinatorView view = Views.make(CoordinatorView.class);
        view.states = Views.make(TransactionsView.class);
        view.states.nodes = nodes;
        return view;
    }
}

class SocketView extends SocketServer {
    int port;

    SocketView() { super(null, null, null, null, null, null, null); }

    @Override
    public int boundPort(ListenerName name) { return port; }
}

class MetadataView extends KRaftMetadataCache {
    NodeView node;

    MetadataView() { super(0, null); }

    @Override
    public Optional<Integer> numPartitions(String topic) {
        int count = node.leaders(topic).size();
        return count == 0 ? Optional.empty() : Optional.of(count);
    }

    @Override
    public Optional<LeaderAndIsr> getLeaderAndIsr(String topic, int partition) {
        List<Integer> leaders = node.leaders(topic);
        return partition < leaders.size() ? Optional.of(new LeaderAndIsr(leaders.get(partition), List.of())) : Optional.empty();
    }
}

class ReplicasView extends ReplicaManager {
    NodeView node;

    ReplicasView() {
        super(null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null);
    }

    @Override
    public Option<UnifiedLog> localLog(TopicPartition partition) { return Option.apply(LogView.of(node, partition)); }

    @Override
    public HostedPartition<Partition> getPartition(TopicPartition partition) { return new HostedPartition.Online<>(PartitionView.of(node, partition)); }

    @Override
    public Option<Partition> onlinePartition(TopicPartition partition) { return Option.apply(PartitionView.of(node, partition)); }
}

class PartitionView extends Partition {
    NodeView node;
    TopicPartition partition;

    PartitionView() { super(null, 0, 0, null, null, null, null, null, null, null, null); }

    static Partition of(NodeView node, TopicPartition partition) {
        PartitionView view = Views.make(PartitionView.class);
        view.node = node;
        view.partition = partition;
        return view;
    }

    @Override
    public Option<UnifiedLog> leaderLogIfLocal() {
        List<Integer> leaders = node.leaders(partition.topic());
        boolean leads = partition.partition() < leaders.size() && leaders.get(partition.partition()) == node.id;
        return leads ? Option.apply(LogView.of(node, partition)) : Option.empty();
    }

    @Override
    public int getLeaderEpoch() {
        return Integer.parseInt(node.nodes.ask("leader-epoch", node.id, partition.topic(), partition.partition()));
    }

    @Override
    public Option<Object> leaderReplicaIdOpt() {
        List<Integer> leaders = node.leaders(partition.topic());
        return partition.partition() < leaders.size() ? Option.apply(leaders.get(partition.partition())) : Option.empty();
    }
}

class LogsView extends LogManager {
    NodeView node;

    LogsView() { super(null, null, null, null, null, 0, 0, 0, 0, 0, 0, null, 0, null, null, null, null, false, 0, null); }

    @Override
    public Option<UnifiedLog> getLog(TopicPartition partition, boolean isFuture) { return Option.apply(LogView.of(node, partition)); }
}

class LogView extends UnifiedLog {
    NodeView node;
    TopicPartition partition;

    LogView() throws IOException { super(0, null, null, 0, null, null, null, false, null); }

    static UnifiedLog of(NodeView node, TopicPartition partition) {
        LogView view = Views.make(LogView.class);
        view.node = node;
        view.partition = partition;
        return view;
    }

    private long start(int index) {
        return Long.parseLong(node.nodes.ask("starts", node.id, partition.topic(), partition.partition()).split(" ")[index]);
    }

    @Override
    public long logStartOffset() { return start(0); }

    @Override
    public long localLogStartOffset() { return start(1); }

    @Override
    public LogConfig config() {
        Properties configs = new Properties();
        for (String line : Nodes.decoded(node.nodes.ask("configs", node.id, partition.topic()))) {
            String[] words = line.split("=", 2);
            configs.put(words[0], words[1]);
        }
        return new LogConfig(configs);
    }

    @Override
    public ProducerStateManager producerStateManager() {
        ProducersView view = Views.make(ProducersView.class);
        view.node = node;
        view.partition = partition;
        return view;
    }
}

class ProducersView extends ProducerStateManager {
    NodeView node;
    TopicPartition partition;

    ProducersView() throws IOException { super(null, null, 0, null, null); }

    @Override
    public Map<Long, ProducerStateEntry> activeProducers() {
        Map<Long, ProducerStateEntry> found = new HashMap<>();
        for (String line : node.nodes.ask("producers", node.id, partition.topic(), partition.partition()).split(" ")) {
            if (line.isEmpty()) continue;
            String[] fields = line.split(":");
            long id = Long.parseLong(fields[0]);
            found.put(id, new ProducerStateEntry(id, Short.parseShort(fields[1]), 0, 0, OptionalLong.empty()));
        }
        return found;
    }
}

class CoordinatorView extends TransactionCoordinator {
    TransactionsView states;

    CoordinatorView() { super(null, null, null, null, null, null, null); }

    @Override
    public TransactionStateManager transactionManager() { return states; }
}

class TransactionsView extends TransactionStateManager {
    Nodes nodes;

    TransactionsView() { super(0, null, null, null, null, null, null); }

    @Override
    public scala.util.Either<Errors, Option<CoordinatorEpochAndTxnMetadata>> getTransactionState(String id) {
        return new scala.util.Right<>(Option.apply(new CoordinatorEpochAndTxnMetadata(0, new TransactionView(nodes, id))));
    }
}

// Apache's test sets an epoch in memory; here the epoch grows to it by requests.
class TransactionView extends TransactionMetadata {
    private final Nodes nodes;
    private final String id;

    TransactionView(Nodes nodes, String id) {
        super(id, 0, -1, -1, (short) 0, (short) -1, 0, TransactionState.EMPTY, Set.of(), 0, 0, TransactionVersion.TV_2);
        this.nodes = nodes;
        this.id = id;
    }

    @Override
    public void setProducerEpoch(short epoch) { nodes.ask("raise", id, epoch); }

    @Override
    public short producerEpoch() { return Short.parseShort(nodes.ask("epoch", id)); }
}
