import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of three groups of Apache's client, in threads of one process: `BOOTSTRAP TOPIC PREFIX`. The groups are
 * PREFIX-java-classic, PREFIX-java-consumer and PREFIX-java-share. Prints `["seen", seconds, value, kind]` for each record.
 */
public final class GroupMembers {
    private static volatile boolean isEnding;

    public static void main(String[] words) throws Exception {
        Thread[] members = {
            new Thread(() -> consume(words, "java-classic", Map.of("group.protocol", "classic"))),
            new Thread(() -> consume(words, "java-consumer", Map.of("group.protocol", "consumer"))),
            new Thread(() -> share(words)),
        };
        for (Thread member : members) member.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isEnding = true;
            try {
                for (Thread member : members) member.join();
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }));
        for (Thread member : members) member.join();
    }

    private static Properties settings(String[] words, String kind) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("group.id", words[2] + "-" + kind);
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        return settings;
    }

    private static void consume(String[] words, String kind, Map<String, String> more) {
        Properties settings = settings(words, kind);
        settings.put("auto.offset.reset", "earliest");
        settings.put("auto.commit.interval.ms", "500");
        settings.putAll(more);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(words[1]));
            while (!isEnding) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) seen(record, kind);
            }
        }
    }

    private static void share(String[] words) {
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings(words, "java-share"))) {
            consumer.subscribe(List.of(words[1]));
            while (!isEnding) {
                try {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                        seen(record, "java-share");
                    }
                } catch (KafkaException passing) {
                    System.err.println(passing);
                }
            }
        }
    }

    private static synchronized void seen(ConsumerRecord<String, String> record, String kind) {
        System.out.printf("[\"seen\", %.3f, %s, \"%s\"]%n", System.nanoTime() / 1e9, record.value(), kind);
        System.out.flush();
    }
}
