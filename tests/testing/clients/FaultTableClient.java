import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Java's clients with pipes: answers each line "produce ADDRESS" or "consume ADDRESS" with a line. */
public final class FaultTableClient {
    private static final Duration DEADLINE = Duration.ofSeconds(120);
    /** The value of the record after which a consumer commits and ends. */
    private static final String LAST = "the last order";

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            System.out.println(words[0].equals("produce") ? produce(words[1]) : consume(words[1]));
        }
    }

    private static String produce(String address) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", address);
        config.put("client.id", "java");
        config.put("retry.backoff.ms", "20");
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", "order 1")).get();
            return "ok";
        } catch (ExecutionException failed) {
            return failed.getCause().getClass().getSimpleName();
        }
    }

    private static String consume(String address) {
        Properties config = new Properties();
        config.put("bootstrap.servers", address);
        config.put("client.id", "java");
        config.put("group.id", "billing");
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("heartbeat.interval.ms", "100");
        config.put("retry.backoff.ms", "20");
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            boolean seen = false;
            for (long until = System.nanoTime() + DEADLINE.toNanos(); !seen && System.nanoTime() < until;) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    seen |= record.value().equals(LAST);
                }
            }
            consumer.commitSync();
            return seen ? "ok" : "nothing";
        }
    }
}
