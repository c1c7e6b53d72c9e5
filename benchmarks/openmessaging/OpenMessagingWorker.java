import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.Recorder;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The worker of the OpenMessaging Benchmark, with its Kafka driver: as many producers and consumers, one topic each, one
 * rate for all senders, an asynchronous commit after each poll. It reads turns from its input, one JSON object a line, and
 * prints events in the same way: "measuring" and "measured", between which the caller takes the brokers' CPU, then "done"
 * with the figures, or "failed". The process stays for all turns, so its code is compiled only once.
 *
 * Latencies are in microseconds from the time at which a record was due, so that a stall counts for each record that was
 * due meanwhile. Upstream takes them from the time of sending, and end to end in whole milliseconds. A record carries its
 * due time in its first eight bytes.
 */
public final class OpenMessagingWorker {
    static final long HIGHEST_US = TimeUnit.MINUTES.toMicros(5);
    static final int DIGITS = 3;
    /** With a rate of 0, records on the way from the senders to the consumers, in bytes. */
    static final long AHEAD_BYTES = 32 << 20;
    /** Upstream's level of an empty backlog, in records. */
    static final long EMPTY_BACKLOG = 1000;
    /** Instead of a due time: a probe, and a record before the measured time. */
    static final long NOT_MEASURED = Long.MIN_VALUE;
    static final int KEYS = 10_000;
    static final long SETTLED_NS = 20_000_000;
    static final long READY_S = 120;
    static final long REST_S = 180;
    static final ObjectMapper JSON = new ObjectMapper();

    /** A turn: a workload by upstream's names of its fields, and what the driver's file says. */
    public static final class Turn {
        public String bootstrap;
        public int topics;
        public int partitionsPerTopic;
        public short replicationFactor;
        public int subscriptionsPerTopic;
        public int consumerPerSubscription;
        public int producersPerTopic;
        public String keyDistributor;
        public int messageSize;
        public double randomBytesRatio;
        public int payloads;
        /** Records a second of all producers; 0: as many as the consumers keep up with; infinite: as many as can be sent. */
        public double producerRate;
        public long backlogBytes;
        public double warmUpSeconds;
        public double seconds;
        public Map<String, String> topicConfig;
        public Map<String, Object> producerConfig;
        public Map<String, Object> consumerConfig;
    }

    /** When the next record is due. Shared by all senders. */
    interface Pace {
        /** Returns the due time in nanoseconds, after a wait until then. */
        long await();
    }

    static Pace uniform(double perSecond) {
        long began = System.nanoTime();
        double apartNs = 1e9 / perSecond;
        AtomicLong count = new AtomicLong();
        return () -> {
            long due = began + (long) (count.getAndIncrement() * apartNs);
            for (long left; (left = due - System.nanoTime()) > 0; ) LockSupport.parkNanos(left);
            return due;
        };
    }

    private final Turn turn;
    private final String prefix = "omb-" + UUID.randomUUID().toString().substring(0, 8);
    private final List<KafkaProducer<String, byte[]>> producers = new ArrayList<>();
    private final List<Thread> senders = new ArrayList<>();
    private final List<Thread> readers = new ArrayList<>();
    private final LongAdder handedOver = new LongAdder();
    private final LongAdder sent = new LongAdder();
    private final LongAdder received = new LongAdder();
    private final AtomicInteger joined = new AtomicInteger();
    private final AtomicInteger assigned = new AtomicInteger();
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final Recorder publish = new Recorder(HIGHEST_US, DIGITS);
    private final Recorder endToEnd = new Recorder(HIGHEST_US, DIGITS);
    private final LongAdder measuredSent = new LongAdder();
    private final LongAdder measuredReceived = new LongAdder();
    private volatile long measureFrom = Long.MAX_VALUE;
    private volatile long measureUntil = Long.MAX_VALUE;
    /** None: the senders wait. */
    private volatile Pace pace;
    private volatile boolean readersPaused;
    private volatile boolean sendersStopped;
    private volatile boolean readersStopped;

    OpenMessagingWorker(Turn turn) {
        this.turn = turn;
    }

    /** The sender decides it, and the record tells the reader: both count the same records. */
    private boolean isMeasured(long due) {
        return measureFrom != Long.MAX_VALUE && due - measureFrom >= 0;
    }

    private static void record(Recorder recorder, long due) {
        recorder.recordValue(Math.max(0, Math.min(HIGHEST_US, (System.nanoTime() - due) / 1000)));
    }

    private long backlog() {
        return turn.subscriptionsPerTopic * sent.sum() - received.sum();
    }

    private void await(String what, long deadlineS, BooleanSupplier condition) throws InterruptedException {
        long began = System.nanoTime();
        while (!condition.getAsBoolean()) {
            if (failure.get() != null) throw new IllegalStateException(what, failure.get());
            if (System.nanoTime() - began > deadlineS * 1_000_000_000L) {
                throw new IllegalStateException(what + ": not after " + deadlineS + " s; sent " + sent.sum()
                    + ", received " + received.sum() + ", assigned " + assigned.get());
            }
            Thread.sleep(1);
        }
    }

    private Map<String, Object> common(Map<String, Object> config) {
        Map<String, Object> properties = new HashMap<>(config);
        properties.put("bootstrap.servers", turn.bootstrap);
        return properties;
    }

    private List<String> createTopics(Admin admin) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (int n = 0; n < turn.topics; n++) {
            topics.add(new NewTopic(String.format("%s-%07d", prefix, n), turn.partitionsPerTopic, turn.replicationFactor)
                .configs(turn.topicConfig));
        }
        try {
            admin.createTopics(topics).all().get(READY_S, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            // A repeated request, after a response that was lost.
            if (!(error.getCause() instanceof TopicExistsException)) throw error;
        }
        return topics.stream().map(NewTopic::name).toList();
    }

    private void createReaders(List<String> topics) {
        for (String topic : topics) {
            for (int subscription = 0; subscription < turn.subscriptionsPerTopic; subscription++) {
                String group = String.format("sub-%03d-%s", subscription, topic);
                for (int n = 0; n < turn.consumerPerSubscription; n++) {
                    Thread reader = new Thread(() -> read(topic, group), "reader");
                    readers.add(reader);
                    reader.start();
                }
            }
        }
    }

    private void read(String topic, String group) {
        Map<String, Object> properties = common(turn.consumerConfig);
        properties.put("group.id", group);
        boolean commits = !Boolean.parseBoolean(String.valueOf(properties.getOrDefault("enable.auto.commit", "false")));
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                private boolean hasJoined;

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    assigned.addAndGet(partitions.size());
                    if (!hasJoined) joined.incrementAndGet();
                    hasJoined = true;
                }

                /** A member that joins late makes the others give up partitions: no record may be received twice. */
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    assigned.addAndGet(-partitions.size());
                    if (!readersStopped) consumer.commitSync();
                }
            });
            while (!readersStopped) {
                if (readersPaused) {
                    Thread.sleep(1);
                    continue;
                }
                ConsumerRecords<String, byte[]> records = consumer.poll(Duration.ofMillis(100));
                if (records.isEmpty()) continue;
                for (ConsumerRecord<String, byte[]> record : records) {
                    long due = ByteBuffer.wrap(record.value()).getLong();
                    received.increment();
                    if (due != NOT_MEASURED) {
                        record(endToEnd, due);
                        measuredReceived.increment();
                    }
                }
                if (commits) {
                    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                    for (TopicPartition partition : records.partitions()) {
                        List<ConsumerRecord<String, byte[]>> part = records.records(partition);
                        offsets.put(partition, new OffsetAndMetadata(part.get(part.size() - 1).offset() + 1));
                    }
                    consumer.commitAsync(offsets, null);
                }
            }
        } catch (Throwable error) {
            failure.compareAndSet(null, error);
        }
    }

    private void probe(List<String> topics) throws Exception {
        byte[] payload = ByteBuffer.allocate(Long.BYTES).putLong(NOT_MEASURED).array();
        for (int n = 0; n < producers.size(); n++) {
            producers.get(n).send(new ProducerRecord<>(topics.get(n % topics.size()), payload), (data, error) -> {
                if (error != null) failure.compareAndSet(null, error);
                else sent.increment();
            });
            handedOver.increment();
        }
        await("all probes were acknowledged", READY_S, () -> sent.sum() == producers.size());
        int wanted = turn.topics * turn.partitionsPerTopic * turn.subscriptionsPerTopic;
        await("all partitions are assigned", READY_S, () -> joined.get() == readers.size() && assigned.get() == wanted);
        await("all probes were received", READY_S, () -> backlog() == 0);
    }

    private void startSenders(List<String> topics) {
        int count = Math.min(Runtime.getRuntime().availableProcessors(), producers.size());
        for (int n = 0; n < count; n++) {
            int first = n;
            Thread sender = new Thread(() -> {
                try {
                    send(topics, first, count);
                } catch (Throwable error) {
                    failure.compareAndSet(null, error);
                }
            }, "sender");
            senders.add(sender);
            sender.start();
        }
    }

    /** Sends by each producer from the first one, every `apart`, in turn. */
    private void send(List<String> topics, int first, int apart) throws InterruptedException {
        List<byte[]> payloads = payloads();
        Keys keys = new Keys(turn.keyDistributor);
        long ahead = Math.max(1, AHEAD_BYTES / turn.messageSize);
        for (int n = first; !sendersStopped; n = n + apart < producers.size() ? n + apart : first) {
            Pace current;
            while ((current = pace) == null && !sendersStopped) Thread.sleep(1);
            if (current == null) return;
            while (turn.producerRate == 0 && !sendersStopped
                && turn.subscriptionsPerTopic * handedOver.sum() - received.sum() > ahead) LockSupport.parkNanos(100_000);
            long due = current.await();
            // A sender that is late still sends what was due until then: no latency is left out.
            if (measureUntil != Long.MAX_VALUE && due - measureUntil >= 0) return;
            boolean isMeasured = isMeasured(due);
            byte[] payload = payloads.get(ThreadLocalRandom.current().nextInt(payloads.size()));
            ByteBuffer.wrap(payload).putLong(isMeasured ? due : NOT_MEASURED);
            handedOver.increment();
            producers.get(n).send(new ProducerRecord<>(topics.get(n % topics.size()), keys.next(), payload), (data, error) -> {
                if (error != null) {
                    failure.compareAndSet(null, error);
                    return;
                }
                sent.increment();
                if (isMeasured) {
                    record(publish, due);
                    measuredSent.increment();
                }
            });
        }
    }

    /** Returns this sender's payloads: random bytes, then zeros. The producer copies a payload before send() returns. */
    private List<byte[]> payloads() {
        Random random = new Random(1);
        List<byte[]> payloads = new ArrayList<>();
        for (int n = 0; n < turn.payloads; n++) {
            byte[] randomPart = new byte[(int) (turn.messageSize * turn.randomBytesRatio)];
            random.nextBytes(randomPart);
            byte[] payload = new byte[turn.messageSize];
            System.arraycopy(randomPart, 0, payload, 0, randomPart.length);
            payloads.add(payload);
        }
        return payloads;
    }

    /** Upstream's key distributors. */
    static final class Keys {
        private final String kind;
        private final String[] keys = new String[KEYS];
        private int next;

        Keys(String kind) {
            this.kind = kind;
            Random random = new Random(1);
            for (int n = 0; n < KEYS; n++) keys[n] = String.format("%07x", random.nextInt(1 << 28));
        }

        String next() {
            return switch (kind) {
                case "NO_KEY" -> null;
                case "KEY_ROUND_ROBIN" -> keys[next = (next + 1) % KEYS];
                case "RANDOM_NANO" -> keys[(int) (System.nanoTime() % KEYS)];
                default -> throw new IllegalArgumentException(kind);
            };
        }
    }

    private Pace asTurnSays() {
        return turn.producerRate == 0 || Double.isInfinite(turn.producerRate)
            ? System::nanoTime : uniform(turn.producerRate);
    }

    private void sleepFor(double seconds) throws InterruptedException {
        long until = System.nanoTime() + (long) (seconds * 1e9);
        while (System.nanoTime() - until < 0) {
            if (failure.get() != null) throw new IllegalStateException("the load runs", failure.get());
            Thread.sleep(Math.max(1, Math.min(50, (until - System.nanoTime()) / 1_000_000)));
        }
    }

    Map<String, Object> run() throws Exception {
        Map<String, Object> figures = new LinkedHashMap<>();
        try (Admin admin = Admin.create(common(Map.of()))) {
            List<String> topics = createTopics(admin);
            try {
                createReaders(topics);
                for (int n = 0; n < turn.topics * turn.producersPerTopic; n++) {
                    producers.add(new KafkaProducer<>(
                        common(turn.producerConfig), new StringSerializer(), new ByteArraySerializer()));
                }
                probe(topics);
                pace = asTurnSays();
                startSenders(topics);
                sleepFor(turn.warmUpSeconds);
                if (turn.backlogBytes > 0) figures.put("backlog_bytes", buildBacklog());
                measure(figures);
            } finally {
                close();
                admin.deleteTopics(topics).all().get(READY_S, TimeUnit.SECONDS);
            }
        }
        return figures;
    }

    /** Upstream builds the backlog at the workload's rate; here it is built as fast as the brokers take it. */
    private long buildBacklog() throws InterruptedException {
        readersPaused = true;
        pace = System::nanoTime;
        await("the backlog is there", REST_S, () -> backlog() * turn.messageSize >= turn.backlogBytes);
        pace = null;
        await("the senders' last records were acknowledged", REST_S, this::isFlushed);
        return backlog() * turn.messageSize;
    }

    /** A sender that had already looked at the pace sends one more record: nothing changes for a while. */
    private boolean isFlushed() {
        long before = handedOver.sum();
        LockSupport.parkNanos(SETTLED_NS);
        return handedOver.sum() == before && sent.sum() == before;
    }

    private void measure(Map<String, Object> figures) throws Exception {
        tell(Map.of("event", "measuring"));
        long began = System.nanoTime();
        long sentBefore = sent.sum(), receivedBefore = received.sum();
        measureFrom = began;
        if (turn.backlogBytes > 0) {
            pace = asTurnSays();
            readersPaused = false;
            await("the backlog is drained", REST_S, () -> backlog() <= EMPTY_BACKLOG);
        } else {
            sleepFor(turn.seconds);
        }
        measureUntil = System.nanoTime();
        double seconds = (measureUntil - began) / 1e9;
        figures.put("event", "done");
        figures.put("seconds", seconds);
        figures.put("sent", sent.sum() - sentBefore);
        figures.put("received", received.sum() - receivedBefore);
        tell(Map.of("event", "measured"));
        await("all records were sent that were due", REST_S, () -> senders.stream().noneMatch(Thread::isAlive));
        await("all records were acknowledged", REST_S, () -> sent.sum() == handedOver.sum());
        await("all records were received", REST_S, () -> backlog() <= 0);
        if (measuredReceived.sum() != turn.subscriptionsPerTopic * measuredSent.sum()) {
            throw new IllegalStateException(measuredSent.sum() + " records were acknowledged, "
                + measuredReceived.sum() + " were received");
        }
        figures.put("measured", measuredSent.sum());
        figures.put("publish", encoded(publish.getIntervalHistogram()));
        figures.put("end_to_end", encoded(endToEnd.getIntervalHistogram()));
    }

    private static String encoded(Histogram histogram) {
        ByteBuffer buffer = ByteBuffer.allocate(histogram.getNeededByteBufferCapacity());
        int size = histogram.encodeIntoCompressedByteBuffer(buffer);
        byte[] bytes = new byte[size];
        buffer.flip();
        buffer.get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }

    private void close() throws InterruptedException {
        sendersStopped = true;
        readersPaused = false;
        readersStopped = true;
        for (Thread sender : senders) sender.join();
        // After a turn nothing is left to send; after a failure, hundreds of producers would wait one after the other.
        for (KafkaProducer<String, byte[]> producer : producers) producer.close(Duration.ZERO);
        for (Thread reader : readers) reader.join();
    }

    static synchronized void tell(Map<String, ?> event) throws Exception {
        System.out.println(JSON.writeValueAsString(event));
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            try {
                tell(new OpenMessagingWorker(JSON.readValue(line, Turn.class)).run());
            } catch (Throwable error) {
                error.printStackTrace();
                tell(Map.of("event", "failed", "error", String.valueOf(error),
                    "cause", String.valueOf(error.getCause())));
            }
            System.gc();
        }
    }
}
