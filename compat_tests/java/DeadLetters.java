import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Runs a share consumer that accepts, rejects ("bad ...") and releases ("late ...") records. Then prints the records of the
 * dead-letter queue, one a line: value, key, and the headers.
 *
 * Arguments: bootstrap servers, topic, group, queue, number of dead-letter records, and the values to produce.
 */
public final class DeadLetters {
    private static final Duration POLL = Duration.ofMillis(500);

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], topic = arguments[1], group = arguments[2], queue = arguments[3];
        int letters = Integer.parseInt(arguments[4]);
        List<String> values = List.of(arguments).subList(5, arguments.length);
        prepare(bootstrap, topic, group, queue);
        produce(bootstrap, topic, values);
        consume(bootstrap, topic, group, values.size());
        read(bootstrap, queue, letters);
    }

    private static Properties client(String bootstrap) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (String of : List.of("key", "value")) {
            properties.put(of + ".serializer", StringSerializer.class.getName());
            properties.put(of + ".deserializer", StringDeserializer.class.getName());
        }
        return properties;
    }

    private static void prepare(String bootstrap, String topic, String group, String queue) throws Exception {
        Map<String, String> settings = Map.of(
            "share.auto.offset.reset", "earliest",
            "share.delivery.count.limit", "2",
            "errors.deadletterqueue.topic.name", queue,
            "errors.deadletterqueue.copy.record.enable", "true");
        try (Admin admin = Admin.create(client(bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
            ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
            List<AlterConfigOp> changes = settings.entrySet().stream()
                .map(one -> new AlterConfigOp(new ConfigEntry(one.getKey(), one.getValue()), AlterConfigOp.OpType.SET))
                .toList();
            admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
        }
    }

    private static void produce(String bootstrap, String topic, List<String> values) throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(client(bootstrap))) {
            for (String value : values) {
                producer.send(new ProducerRecord<>(topic, 0, value.split(" ")[0], value)).get();
            }
        }
    }

    /** Consumes until every record is accepted or rejected; released records are delivered twice. */
    private static void consume(String bootstrap, String topic, String group, int count) {
        Properties properties = client(bootstrap);
        properties.put("group.id", group);
        properties.put("share.acknowledgement.mode", "explicit");
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(properties)) {
            consumer.subscribe(List.of(topic));
            while (count > 0) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    boolean isLate = record.value().startsWith("late");
                    boolean isBad = record.value().startsWith("bad");
                    AcknowledgeType other = isBad ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
                    consumer.acknowledge(record, isLate ? AcknowledgeType.RELEASE : other);
                    count -= isLate && record.deliveryCount().orElseThrow() < 2 ? 0 : 1;
                }
                consumer.commitSync().values().forEach(failed -> failed.ifPresent(error -> { throw error; }));
            }
        }
    }

    private static void read(String bootstrap, String queue, int letters) throws InterruptedException {
        Properties properties = client(bootstrap);
        // An automatically created topic would lack the config of a dead-letter queue.
        properties.put("allow.auto.create.topics", "false");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            while (consumer.partitionsFor(queue).isEmpty()) {
                Thread.sleep(POLL.toMillis());
            }
            List<TopicPartition> partitions = consumer.partitionsFor(queue).stream()
                .map(one -> new TopicPartition(one.topic(), one.partition())).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (letters > 0) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    StringBuilder line = new StringBuilder(record.value() + " | " + record.key());
                    for (Header header : record.headers()) {
                        line.append(" | ").append(header.key()).append("=").append(new String(header.value()));
                    }
                    System.out.println(line);
                    letters--;
                }
            }
        }
    }
}
