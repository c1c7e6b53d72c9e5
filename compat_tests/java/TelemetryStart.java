import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;

/** Starts the broker as OracleStart does, with a reporter that parses the metrics of clients and keeps nothing. */
public final class TelemetryStart {
    public static void main(String[] arguments) {
        // Kafka loads the classes of reporters with this loader.
        Thread.currentThread().setContextClassLoader(TelemetryStart.class.getClassLoader());
        String[] format = {
            "format", "--cluster-id", arguments[0], "--config", arguments[1], "--ignore-formatted", "--standalone"};
        var nowhere = new java.io.PrintStream(java.io.OutputStream.nullOutputStream());
        int status = kafka.tools.StorageTool.execute(format, nowhere);
        if (status != 0) System.exit(status);
        kafka.Kafka.main(new String[] {arguments[1]});
    }

    public static final class Receiver implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
        @Override
        public ClientTelemetryReceiver clientReceiver() {
            return this;
        }

        @Override
        public void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
            try {
                MetricsData.parseFrom(payload.data());
            } catch (java.io.IOException unreadable) {
                throw new RuntimeException(unreadable);
            }
        }

        @Override
        public void init(List<KafkaMetric> metrics) { }

        @Override
        public void metricChange(KafkaMetric metric) { }

        @Override
        public void metricRemoval(KafkaMetric metric) { }

        @Override
        public void close() { }

        @Override
        public void configure(Map<String, ?> configs) { }
    }
}
