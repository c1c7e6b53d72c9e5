import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.config.TopicBuilder;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.requestreply.ReplyingKafkaTemplate;
import org.springframework.kafka.transaction.KafkaTransactionManager;
import org.springframework.messaging.handler.annotation.SendTo;
import org.springframework.util.backoff.FixedBackOff;

/**
 * A Spring application: BOOTSTRAP TOPIC GROUP COUNT. It creates its topics; a transactional listener doubles the numbers of
 * TOPIC into TOPIC-doubled; "bad" ones are tried three times and go to TOPIC-dlt; a batch listener counts TOPIC-doubled; a
 * question to TOPIC-asked is answered. It ends when COUNT numbers and one dead-letter record were seen in batches.
 */
@Configuration
@EnableKafka
public class Application {
    static String bootstrap, topic, group;
    static CountDownLatch batched;
    static final CountDownLatch dead = new CountDownLatch(1);
    static final AtomicInteger tries = new AtomicInteger();

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        group = arguments[2];
        batched = new CountDownLatch(Integer.parseInt(arguments[3]));
        System.setProperty("topic", topic);
        System.setProperty("group", group);
        try (var context = new AnnotationConfigApplicationContext(Application.class)) {
            System.out.println("started");
            System.out.flush();
            @SuppressWarnings("unchecked")
            ReplyingKafkaTemplate<String, String, String> asking = context.getBean("asking", ReplyingKafkaTemplate.class);
            if (!asking.waitForAssignment(java.time.Duration.ofSeconds(30))) {
                throw new IllegalStateException("no partition for replies");
            }
            var reply = asking.sendAndReceive(new ProducerRecord<>(topic + "-asked", "how are you"));
            System.out.println("reply " + reply.get(60, TimeUnit.SECONDS).value());
            if (!batched.await(100, TimeUnit.SECONDS)) {
                throw new IllegalStateException(batched.getCount() + " records did not come");
            }
            if (!dead.await(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException("no dead-letter record");
            }
            System.out.println("tries " + tries.get());
        }
    }

    @Bean
    KafkaAdmin admin() {
        return new KafkaAdmin(Map.of("bootstrap.servers", bootstrap));
    }

    @Bean
    KafkaAdmin.NewTopics topics() {
        return new KafkaAdmin.NewTopics(
                made(""), made("-doubled"), made("-dlt"), made("-asked"), made("-replies"));
    }

    private static NewTopic made(String suffix) {
        return TopicBuilder.name(topic + suffix).partitions(2).replicas(1).build();
    }

    private static Map<String, Object> consuming() {
        return Map.of(
                "bootstrap.servers", bootstrap,
                "auto.offset.reset", "earliest",
                "isolation.level", "read_committed",
                "key.deserializer", StringDeserializer.class,
                "value.deserializer", StringDeserializer.class);
    }

    private static DefaultKafkaProducerFactory<String, String> producing() {
        return new DefaultKafkaProducerFactory<>(
                Map.of(
                        "bootstrap.servers", bootstrap,
                        "key.serializer", StringSerializer.class,
                        "value.serializer", StringSerializer.class));
    }

    @Bean
    ConsumerFactory<String, String> consumers() {
        return new DefaultKafkaConsumerFactory<>(consuming());
    }

    @Bean
    ProducerFactory<String, String> transactional() {
        var factory = producing();
        factory.setTransactionIdPrefix(group + "-tx-");
        return factory;
    }

    @Bean
    ProducerFactory<String, String> plain() {
        return producing();
    }

    @Bean
    KafkaTemplate<String, String> template() {
        return new KafkaTemplate<>(transactional());
    }

    @Bean
    KafkaTemplate<String, String> answering() {
        return new KafkaTemplate<>(plain());
    }

    @Bean
    ConcurrentKafkaListenerContainerFactory<String, String> exactlyOnce() {
        var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
        factory.setConsumerFactory(consumers());
        factory.getContainerProperties().setKafkaAwareTransactionManager(new KafkaTransactionManager<>(transactional()));
        var recoverer =
                new DeadLetterPublishingRecoverer(
                        template(), (record, error) -> new org.apache.kafka.common.TopicPartition(topic + "-dlt", 0));
        var after =
                new org.springframework.kafka.listener.DefaultAfterRollbackProcessor<String, String>(
                        recoverer, new FixedBackOff(50, 2), template(), true);
        factory.setAfterRollbackProcessor(after);
        factory.setConcurrency(2);
        return factory;
    }

    @Bean
    ConcurrentKafkaListenerContainerFactory<String, String> inBatches() {
        var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
        factory.setConsumerFactory(consumers());
        factory.setBatchListener(true);
        return factory;
    }

    @Bean
    ConcurrentKafkaListenerContainerFactory<String, String> replying() {
        var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
        factory.setConsumerFactory(consumers());
        factory.setReplyTemplate(answering());
        factory.setCommonErrorHandler(new DefaultErrorHandler());
        return factory;
    }

    @Bean
    ReplyingKafkaTemplate<String, String, String> asking() {
        ConcurrentMessageListenerContainer<String, String> replies = inReplies().createContainer(topic + "-replies");
        replies.getContainerProperties().setGroupId(group + "-replies-" + ProcessHandle.current().pid());
        var template = new ReplyingKafkaTemplate<>(plain(), replies);
        template.setDefaultReplyTimeout(java.time.Duration.ofSeconds(60));
        return template;
    }

    @Bean
    ConcurrentKafkaListenerContainerFactory<String, String> inReplies() {
        var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
        factory.setConsumerFactory(consumers());
        return factory;
    }

    @KafkaListener(topics = "#{systemProperties.topic}", groupId = "#{systemProperties.group}", containerFactory = "exactlyOnce")
    void twice(ConsumerRecord<String, String> record) {
        template().send(topic + "-doubled", record.key(), record.value().equals("bad") ? "never" : doubled(record.value()));
        if (record.value().equals("bad")) {
            template().flush(); // what is aborted lies in the log
            tries.incrementAndGet();
            throw new IllegalArgumentException("a bad record");
        }
    }

    private static String doubled(String value) {
        return String.valueOf(2 * Integer.parseInt(value));
    }

    @KafkaListener(
            topics = "#{systemProperties.topic}-doubled",
            groupId = "#{systemProperties.group}-batches",
            containerFactory = "inBatches")
    void batch(List<String> values) {
        values.forEach(value -> batched.countDown());
    }

    @KafkaListener(
            topics = "#{systemProperties.topic}-dlt",
            groupId = "#{systemProperties.group}-dead",
            containerFactory = "inBatches")
    void deadLetters(List<String> values) {
        dead.countDown();
    }

    @KafkaListener(
            topics = "#{systemProperties.topic}-asked",
            groupId = "#{systemProperties.group}-answers",
            containerFactory = "replying")
    @SendTo
    String answer(String question) {
        return question + "? well";
    }
}
