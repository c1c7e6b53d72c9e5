import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Two members of a share group that acquire by batches or by records (KIP-1206). The second gets the records that the first
 * has not acquired. Prints the number of records of the first member, and then of each poll of the second, while the first
 * holds its records. Ends when the members have all records, or after POLLS_OF_OTHER polls.
 *
 * Arguments: bootstrap servers, topic, group, share.acquire.mode, max.poll.records, number of records.
 */
public final class ShareAcquisition {
    private static final Duration POLL = Duration.ofMillis(500);
    /** Enough polls for a later heartbeat, which brings the partitions; by default they are five seconds apart. */
    private static final int POLLS_OF_OTHER = 50;

    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[2]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("share.acquire.mode", arguments[3]);
        settings.put("max.poll.records", arguments[4]);
        for (String of : List.of("key", "value")) settings.put(of + ".deserializer", StringDeserializer.class.getName());
        try (KafkaShareConsumer<String, String> first = new KafkaShareConsumer<>(settings);
             KafkaShareConsumer<String, String> other = new KafkaShareConsumer<>(settings)) {
            first.subscribe(List.of(arguments[1]));
            other.subscribe(List.of(arguments[1]));
            int given = 0;
            while (given == 0) given = first.poll(POLL).count();
            System.out.println("first " + given);
            int all = Integer.parseInt(arguments[5]);
            for (int polls = 0; polls < POLLS_OF_OTHER && given < all; polls++) {
                var records = other.poll(POLL);
                if (records.isEmpty()) continue;
                records.forEach(other::acknowledge);
                System.out.println("other " + records.count());
                given += records.count();
            }
        }
    }
}
