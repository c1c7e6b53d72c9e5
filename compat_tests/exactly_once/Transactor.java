import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Carries out transactions, one for each line of standard input: bootstrap servers, topic, its partitions, group, offset,
 * `commit` or `abort`, and a name, which is the transactional id and the value of the records. Answers with a line:
 * `committed`, `aborted`, or `unknown` without an answer from the broker; then a new producer has ended the transaction.
 */
public final class Transactor {
    private static final long PATIENCE_NS = Duration.ofSeconds(120).toNanos();

    public static void main(String[] ignored) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(transact(line.split("\t")));
        }
    }

    @SuppressWarnings("removal") // a group id without member metadata is enough here
    private static String transact(String[] words) throws Exception {
        String bootstrap = words[0], topic = words[1], group = words[3], end = words[5], name = words[6];
        KafkaProducer<String, String> producer = producer(bootstrap, name);
        try {
            producer.beginTransaction();
            try {
                List<Future<?>> sent = new ArrayList<>();
                for (int index = 0; index < Integer.parseInt(words[2]); index++)
                    sent.add(producer.send(new ProducerRecord<>(topic, index, null, name)));
                producer.flush();
                for (Future<?> one : sent) one.get();
                var offsets = Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(Long.parseLong(words[4])));
                retried(() -> producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(group)));
                retried(end.equals("commit") ? producer::commitTransaction : producer::abortTransaction);
                return end.equals("commit") ? "committed" : "aborted";
            } catch (KafkaException | ExecutionException failure) {
                System.err.println(name + ": " + failure);
                retried(producer::abortTransaction);
                return "aborted";
            }
        } catch (KafkaException failure) {
            System.err.println(name + ": " + failure);
            producer(bootstrap, name).close(Duration.ZERO);
            return "unknown";
        } finally {
            producer.close(Duration.ZERO);
        }
    }

    /** Repeats a call that timed out, as the client's documentation requires. */
    private static void retried(Runnable step) {
        for (long began = System.nanoTime();;) {
            try {
                step.run();
                return;
            } catch (TimeoutException late) {
                if (System.nanoTime() - began > PATIENCE_NS) throw late;
            }
        }
    }

    private static KafkaProducer<String, String> producer(String bootstrap, String name) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", name);
        settings.put("linger.ms", "0");
        settings.put("reconnect.backoff.ms", "20");
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put("retry.backoff.ms", "20");
        settings.put("retry.backoff.max.ms", "200");
        for (String of : List.of("key", "value")) settings.put(of + ".serializer", StringSerializer.class.getName());
        KafkaProducer<String, String> made = new KafkaProducer<>(settings);
        try {
            retried(made::initTransactions);
        } catch (KafkaException failure) {
            made.close(Duration.ZERO);
            throw failure;
        }
        return made;
    }
}
