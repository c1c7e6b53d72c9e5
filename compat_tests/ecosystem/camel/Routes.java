import java.util.concurrent.atomic.AtomicInteger;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.kafka.KafkaConstants;
import org.apache.camel.component.kafka.consumer.KafkaManualCommit;
import org.apache.camel.main.Main;

/**
 * Routes of Camel: BOOTSTRAP TOPIC GROUP COUNT. Values of TOPIC go upper-case to TOPIC-upper, with their keys and a header, and
 * are committed one by one; "bad" ones go to TOPIC-bad. Ends after COUNT values.
 */
public final class Routes extends RouteBuilder {
    private static String bootstrap, topic, group;
    private static final AtomicInteger left = new AtomicInteger();
    private static final Main main = new Main();

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        group = arguments[2];
        left.set(Integer.parseInt(arguments[3]));
        main.configure().addRoutesBuilder(new Routes());
        main.run();
    }

    @Override
    public void configure() {
        String brokers = "?brokers=" + bootstrap;
        onException(IllegalArgumentException.class).handled(true).to("kafka:" + topic + "-bad" + brokers).process(e -> commit(e));
        from("kafka:" + topic + brokers + "&groupId=" + group
                        + "&autoOffsetReset=earliest&autoCommitEnable=false&allowManualCommit=true&maxPollRecords=100"
                        + "&kafkaManualCommitFactory=#class:org.apache.camel.component.kafka.consumer.DefaultKafkaManualCommitFactory")
                .process(exchange -> {
                    String value = exchange.getMessage().getBody(String.class);
                    if (value.startsWith("bad")) {
                        throw new IllegalArgumentException(value);
                    }
                    exchange.getMessage().setBody(value.toUpperCase());
                    exchange.getMessage().setHeader("route", "camel".getBytes());
                })
                .to("kafka:" + topic + "-upper" + brokers + "&enableIdempotence=true")
                .process(exchange -> commit(exchange));
    }

    private static void commit(org.apache.camel.Exchange exchange) {
        exchange.getMessage().getHeader(KafkaConstants.MANUAL_COMMIT, KafkaManualCommit.class).commit();
        if (left.decrementAndGet() == 0) {
            new Thread(main::shutdown).start();
        }
    }
}
