import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The member of member.py with Apache's client: the same arguments, choices and output. At random it also holds its records
 * for longer than a lock lasts, by renewing the locks (KIP-1222). The client then returns the renewed records alone from its
 * next poll, without a fetch, so they are printed as "again".
 */
public final class ShareMember {
    /** The records of one poll in HELD_OF are held, and renewed RENEWALS times. */
    private static final int HELD_OF = 4;
    private static final int RENEWALS = 3;

    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), true);
    private static volatile boolean isEnding;
    /** The renewed records, which the client returns again, and the number of renewals left. */
    private static final Set<String> HELD = new HashSet<>();
    private static int renewals;

    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("group.id", words[2]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("reconnect.backoff.max.ms", "300");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        Random chance = new Random(Long.parseLong(words[3]));
        Thread own = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> end(own)));
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(words[1]));
            OUT.printf("[\"came\", %s]%n", now());
            while (!isEnding) {
                String began = now();
                List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
                try {
                    consumer.poll(Duration.ofMillis(200)).forEach(records::add);
                    if (!records.isEmpty()) take(consumer, began, records, chance);
                } catch (KafkaException failure) {
                    OUT.printf("[\"failed\", %s, \"%s\"]%n", now(), failure.getClass().getSimpleName());
                }
            }
        }
    }

    private static void end(Thread own) {
        isEnding = true;
        try {
            own.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static void take(
        KafkaShareConsumer<byte[], byte[]> consumer, String began, List<ConsumerRecord<byte[], byte[]>> records, Random chance
    ) throws InterruptedException {
        List<String> given = new ArrayList<>();
        List<String> again = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            (HELD.remove(place(record)) ? again : given).add("[" + place(record) + ", " + value(record) + "]");
        }
        HELD.clear();
        if (!again.isEmpty()) OUT.printf("[\"again\", %s, %s]%n", now(), again);
        if (!given.isEmpty()) OUT.printf("[\"given\", %s, %s, %s]%n", began, now(), given);
        renewals = given.isEmpty() ? renewals - 1 : chance.nextInt(HELD_OF) == 0 ? RENEWALS : 0;
        Thread.sleep(renewals > 0 ? 1000 + chance.nextInt(1000) : chance.nextInt(300));
        List<String> said = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            AcknowledgeType type =
                renewals > 0 ? AcknowledgeType.RENEW : choose(chance, value(record), record.deliveryCount().orElseThrow());
            consumer.acknowledge(record, type);
            said.add("[" + place(record) + ", \"" + type.toString().toLowerCase() + "\"]");
            if (type == AcknowledgeType.RENEW) HELD.add(place(record));
        }
        OUT.printf("[\"says\", %s, %s]%n", now(), said);
        for (Map.Entry<TopicIdPartition, Optional<KafkaException>> answer : consumer.commitSync(Duration.ofSeconds(15)).entrySet()) {
            String error = answer.getValue().map(one -> '"' + one.getClass().getSimpleName() + '"').orElse("null");
            OUT.printf("[\"told\", %s, %d, %s]%n", now(), answer.getKey().partition(), error);
        }
    }

    private static AcknowledgeType choose(Random chance, long value, int count) {
        if (value % 40 == 0) return AcknowledgeType.RELEASE;
        int drawn = chance.nextInt(100);
        if (count >= 3 || drawn < 80) return AcknowledgeType.ACCEPT;
        return drawn < 95 ? AcknowledgeType.RELEASE : AcknowledgeType.REJECT;
    }

    private static String place(ConsumerRecord<byte[], byte[]> record) {
        return record.partition() + ", " + record.offset() + ", " + record.deliveryCount().orElseThrow();
    }

    private static long value(ConsumerRecord<byte[], byte[]> record) {
        return Long.parseLong(new String(record.value(), StandardCharsets.US_ASCII));
    }

    /** The clock of Python's time.monotonic. */
    private static String now() {
        return String.format("%.6f", System.nanoTime() / 1e9);
    }
}
