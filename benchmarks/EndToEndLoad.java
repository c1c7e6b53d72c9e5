import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What Apache's EndToEndLatency does, with a finer clock: that tool tells percentiles in whole milliseconds, and both
 * brokers answer in less than one. One record is sent, and read, before the next: BOOTSTRAP TOPIC RECORDS SIZE ACKS.
 */
public final class EndToEndLoad {
    /** The JVM of the client warms up in these; they are not counted. */
    private static final int WARM_UP_RECORDS = 2000;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        double[] latenciesMs = new double[Integer.parseInt(arguments[2])];
        byte[] value = new byte[Integer.parseInt(arguments[3])];
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("acks", arguments[4]);
        properties.put("linger.ms", "0");
        properties.put("fetch.max.wait.ms", "500");
        try (var producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
             var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            TopicPartition partition = new TopicPartition(producer.partitionsFor(topic).get(0).topic(), 0);
            consumer.assign(List.of(partition));
            consumer.seekToEnd(List.of(partition));
            consumer.position(partition);
            for (int n = -WARM_UP_RECORDS; n < latenciesMs.length; n++) {
                long began = System.nanoTime();
                producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
                while (consumer.poll(Duration.ofSeconds(1)).isEmpty()) {
                    if (System.nanoTime() - began > 60_000_000_000L) throw new IllegalStateException("no record came");
                }
                if (n >= 0) latenciesMs[n] = (System.nanoTime() - began) / 1e6;
            }
        }
        double seconds = Arrays.stream(latenciesMs).sum() / 1000;
        Arrays.sort(latenciesMs);
        System.out.printf("{\"records\": %d, \"seconds\": %f, \"latency_ms\": {\"p50\": %f, \"p99\": %f}}%n",
            latenciesMs.length, seconds, latenciesMs[latenciesMs.length / 2], latenciesMs[latenciesMs.length * 99 / 100]);
    }
}
