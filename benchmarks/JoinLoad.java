import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** From the start of a consumer in a new group to its first record, over and over: BOOTSTRAP TOPIC JOINS. */
public final class JoinLoad {
    /** The JVM of the client warms up in these; they are not counted. */
    private static final int WARM_UP_JOINS = 20;

    public static void main(String[] arguments) {
        double[] latenciesMs = new double[Integer.parseInt(arguments[2])];
        for (int n = -WARM_UP_JOINS; n < latenciesMs.length; n++) {
            double latencyMs = join(arguments[0], arguments[1]);
            if (n >= 0) latenciesMs[n] = latencyMs;
        }
        double seconds = Arrays.stream(latenciesMs).sum() / 1000;
        Arrays.sort(latenciesMs);
        double p50 = latenciesMs[latenciesMs.length / 2], p99 = latenciesMs[latenciesMs.length * 99 / 100];
        System.out.printf("{\"records\": %d, \"seconds\": %f, \"latency_ms\": {\"p50\": %f, \"p99\": %f}}%n",
            latenciesMs.length, seconds, p50, p99);
    }

    private static double join(String bootstrap, String topic) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", "bench-" + UUID.randomUUID());
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        long started = System.nanoTime();
        try (var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (consumer.poll(Duration.ofSeconds(1)).isEmpty()) {
                if (System.nanoTime() - started > 60_000_000_000L) throw new IllegalStateException("no record came");
            }
            return (System.nanoTime() - started) / 1e6;
        }
    }
}
