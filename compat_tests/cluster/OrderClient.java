import java.io.BufferedReader;
import java.io.FileReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends orders and reads those of all clients: `BOOTSTRAP TOPIC GROUP CUSTOMERS PAUSE_MS DELIVERY_MS`.
 *
 * Prints `sent N` for the order in flight, `acknowledged ORDER`, `seen ORDER`, and `failed WHAT` for errors beyond the
 * client's own retries. A line on standard input ends the sending. The end of standard input ends the reading; then
 * the program prints `closed`.
 */
public final class OrderClient {
    private static volatile boolean isSending = true, isReading = true;

    public static void main(String[] arguments) throws Exception {
        Thread reader = new Thread(() -> guarded(() -> read(arguments)));
        Thread sender = new Thread(() -> guarded(() -> send(arguments)));
        reader.start();
        sender.start();
        BufferedReader told = new BufferedReader(new InputStreamReader(System.in));
        told.readLine();
        isSending = false;
        sender.join();
        System.out.println("done");
        while (told.readLine() != null) { }
        isReading = false;
        reader.join();
        System.out.println("closed");
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void guarded(Work work) {
        try {
            work.run();
        } catch (Throwable failure) {
            System.out.println("failed " + failure);
            failure.printStackTrace();
        }
    }

    private static void send(String[] arguments) throws Exception {
        Map<String, Object> settings = secured(Map.of(
            "bootstrap.servers", arguments[0], "acks", "all", "enable.idempotence", true, "linger.ms", 5,
            "metadata.recovery.strategy", "none", // for the reason in orders.py
            "delivery.timeout.ms", Integer.valueOf(arguments[5]), "max.block.ms", Long.valueOf(arguments[5])));
        int customers = Integer.parseInt(arguments[3]);
        long pauseMs = Long.parseLong(arguments[4]);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; isSending; number++) {
                String order = "java-" + number;
                System.out.println("sent " + number);
                producer.send(new ProducerRecord<>(arguments[1], "customer-" + number % customers, order), (at, error) ->
                    System.out.println(error == null ? "acknowledged " + order : "failed " + order + ": " + error));
                Thread.sleep(pauseMs);
            }
        }
    }

    /** Adds the properties of the file that access.py names in the environment. */
    private static Map<String, Object> secured(Map<String, Object> settings) throws IOException {
        String file = System.getenv("ODRADEK_TEST_CLIENT_PROPERTIES");
        Map<String, Object> all = new HashMap<>();
        if (file != null) {
            Properties read = new Properties();
            try (var in = new FileReader(file)) {
                read.load(in);
            }
            read.forEach((key, value) -> all.put((String) key, value));
        }
        all.putAll(settings);
        return all;
    }

    private static void read(String[] arguments) throws IOException {
        Map<String, Object> settings = secured(Map.of(
            "bootstrap.servers", arguments[0], "group.id", arguments[2], "auto.offset.reset", "earliest",
            "auto.commit.interval.ms", 500, "metadata.max.age.ms", 2000, "metadata.recovery.strategy", "none"));
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(arguments[1]));
            while (isReading) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println("seen " + record.value());
                }
            }
        }
    }
}
