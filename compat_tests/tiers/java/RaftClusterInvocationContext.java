// Stands in the place of the class of Apache's test kit that starts the cluster of a @ClusterTest in its JVM: its nodes are
// those of QuorumTestHarness.java. What no test asks is not there.

package org.apache.kafka.common.test.junit;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.QuorumTestHarness;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeTestExecutionCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String name;
    private final ClusterConfig config;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean isCombined) {
        if (isCombined) throw new UnsupportedOperationException("nodes that are controller and broker");
        this.name = name;
        this.config = config;
    }

    static void waitForCondition(Supplier<Boolean> condition, String message) throws InterruptedException {
        org.apache.kafka.test.TestUtils.waitForCondition(condition::get, message);
    }

    @Override
    public String getDisplayName(int index) { return name; }

    @Override
    public List<Extension> getAdditionalExtensions() {
        ClusterOfNodes cluster = new ClusterOfNodes(config);
        return List.of(
            (BeforeTestExecutionCallback) context -> cluster.start(),
            (AfterTestExecutionCallback) context -> cluster.stop(),
            new ClusterInstanceParameterResolver(cluster));
    }
}

class ClusterOfNodes implements ClusterInstance {
    private final ClusterConfig config;
    private QuorumTestHarness.Cluster cluster;
    private boolean stopped;

    ClusterOfNodes(ClusterConfig config) { this.config = config; }

    @Override
    public void start() {
        if (cluster != null) return;
        cluster = new QuorumTestHarness.Cluster();
        cluster.begin(config.numBrokers(), new HashMap<>(config.serverProperties()));
    }

    @Override
    public boolean started() { return cluster != null; }

    @Override
    public void stop() {
        if (cluster != null && !stopped) cluster.end();
        stopped = true;
    }

    @Override
    public boolean stopped() { return stopped; }

    @Override
    public Type type() { return Type.KRAFT; }

    @Override
    public ClusterConfig config() { return config; }

    @Override
    public Map<Integer, KafkaBroker> brokers() { return cluster.brokers(); }

    @Override
    public Map<Integer, ControllerServer> controllers() { return Map.of(); }

    @Override
    public Set<Integer> controllerIds() { return Set.of(); }

    @Override
    public ListenerName clientListener() { return config.brokerListenerName(); }

    @Override
    public ListenerName controllerListenerName() { return config.controllerListenerName(); }

    @Override
    public String bootstrapServers() { return cluster.bootstrapServers(); }

    @Override
    public String bootstrapControllers() { throw new UnsupportedOperationException(); }

    @Override
    public String clusterId() { throw new UnsupportedOperationException(); }

    @Override
    public Optional<FaultHandlerException> firstFatalException() { return Optional.empty(); }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() { return Optional.empty(); }

    @Override
    public void shutdownBroker(int id) { throw new UnsupportedOperationException(); }

    @Override
    public void startBroker(int id) { throw new UnsupportedOperationException(); }

    @Override
    public void waitForReadyBrokers() { }
}
