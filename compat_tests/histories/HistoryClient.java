import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The Java client for piped_client.py, which describes the lines of standard input and output. */
public final class HistoryClient {
    private static final int OPERATION_MS = 15_000;
    private final Properties common = new Properties();
    private final String group;
    private final String protocol;
    private final TreeSet<String> moved = new TreeSet<>();
    private KafkaProducer<String, String> producer;
    private KafkaConsumer<String, String> consumer;

    private HistoryClient(String[] words) {
        common.put("bootstrap.servers", words[1]);
        common.put("request.timeout.ms", "5000");
        common.put("reconnect.backoff.max.ms", "500");
        common.put("metadata.max.age.ms", "5000");
        group = words[2];
        protocol = words[4];
        Properties settings = copy();
        settings.put("delivery.timeout.ms", String.valueOf(OPERATION_MS));
        settings.put("max.block.ms", String.valueOf(OPERATION_MS));
        settings.put("linger.ms", "0");
        if (!words[3].isEmpty()) {
            settings.put("transactional.id", words[3]);
            settings.put("transaction.timeout.ms", "10000");
        }
        producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        if (!words[3].isEmpty()) producer.initTransactions();
    }

    public static void main(String[] ignored) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        HistoryClient client = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            try {
                if (words[0].equals("open")) client = new HistoryClient(words);
                String answer = words[0].equals("open") ? "" : client.perform(words);
                System.out.println("ok\t" + (client == null ? "" : client.takeMoved()) + answer);
            } catch (Exception failure) {
                System.out.println("unknown\t" + String.valueOf(failure).replaceAll("[\t\n]", " "));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private Properties copy() {
        Properties made = new Properties();
        made.putAll(common);
        return made;
    }

    private String takeMoved() {
        String found = String.join(",", moved);
        moved.clear();
        return found;
    }

    private KafkaConsumer<String, String> reader() {
        if (consumer == null) {
            Properties settings = copy();
            settings.put("group.id", group);
            settings.put("enable.auto.commit", "false");
            settings.put("auto.offset.reset", "earliest");
            settings.put("isolation.level", "read_committed");
            settings.put("fetch.max.wait.ms", "50");
            settings.put("default.api.timeout.ms", String.valueOf(OPERATION_MS));
            settings.put("group.protocol", protocol);
            if (protocol.equals("classic")) {
                settings.put("session.timeout.ms", "6000");
                settings.put("heartbeat.interval.ms", "500");
            }
            consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        }
        return consumer;
    }

    private String perform(String[] words) throws Exception {
        switch (words[0]) {
            case "send": return send(words);
            case "begin": producer.beginTransaction(); return "";
            case "join": producer.sendOffsetsToTransaction(offsets(words), reader().groupMetadata()); return "";
            case "commit": producer.commitTransaction(); return "";
            case "abort": producer.abortTransaction(); return "";
            case "assign": {
                Map<TopicPartition, OffsetAndMetadata> wanted = offsets(words);
                reader().assign(wanted.keySet());
                wanted.forEach((key, offset) -> reader().seek(key, offset.offset()));
                return "";
            }
            case "seek": offsets(words).forEach((key, offset) -> reader().seek(key, offset.offset())); return "";
            case "subscribe": subscribe(Arrays.asList(words).subList(1, words.length)); return "";
            case "poll": return poll(Long.parseLong(words[1]));
            case "commit-offsets": reader().commitSync(offsets(words)); return "";
            case "generation": return "\t" + reader().groupMetadata().generationId();
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    private String send(String[] words) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int at = 1; at < words.length; at += 3)
            sent.add(producer.send(new ProducerRecord<>(words[at], Integer.parseInt(words[at + 1]), null, words[at + 2])));
        producer.flush();
        StringBuilder answer = new StringBuilder();
        for (Future<RecordMetadata> one : sent)
            answer.append("\t").append(one.get(OPERATION_MS, TimeUnit.MILLISECONDS).offset());
        return answer.toString();
    }

    private void subscribe(List<String> topics) {
        reader().subscribe(topics, new ConsumerRebalanceListener() {
            @Override public void onPartitionsRevoked(Collection<TopicPartition> keys) { move(keys); }
            @Override public void onPartitionsAssigned(Collection<TopicPartition> keys) { move(keys); }
        });
    }

    private void move(Collection<TopicPartition> keys) {
        keys.forEach(key -> moved.add(key.topic() + "/" + key.partition()));
    }

    private String poll(long timeoutMs) {
        StringBuilder answer = new StringBuilder();
        for (ConsumerRecord<String, String> one : reader().poll(Duration.ofMillis(timeoutMs)))
            answer.append("\t" + one.topic() + "\t" + one.partition() + "\t" + one.offset() + "\t" + one.value());
        return answer.toString();
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(String[] words) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (int at = 1; at < words.length; at += 3)
            found.put(new TopicPartition(words[at], Integer.parseInt(words[at + 1])),
                new OffsetAndMetadata(Long.parseLong(words[at + 2])));
        return found;
    }
}
