import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;

/**
 * A job of Flink: BOOTSTRAP TOPIC GROUP FAIL_AFTER MARK. Sums numbers by their last digit, in state, and writes each sum to
 * TOPIC-sums in transactions. After FAIL_AFTER records of one key it throws once: the file MARK says that it did. Ends at the
 * topic's end; FAIL_AFTER 0 never throws.
 */
public final class ExactlyOnceJob {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], topic = arguments[1], group = arguments[2], mark = arguments[4];
        int failAfter = Integer.parseInt(arguments[3]);
        Configuration settings = new Configuration();
        settings.setString("restart-strategy.type", "fixed-delay");
        settings.setString("restart-strategy.fixed-delay.attempts", "3");
        settings.setString("restart-strategy.fixed-delay.delay", "100 ms");
        settings.setString("rest.port", "0");
        StreamExecutionEnvironment flow = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
        flow.setRuntimeMode(RuntimeExecutionMode.STREAMING);
        flow.enableCheckpointing(300);
        KafkaSource<String> source =
                KafkaSource.<String>builder()
                        .setBootstrapServers(bootstrap)
                        .setTopics(topic)
                        .setGroupId(group)
                        .setStartingOffsets(OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST))
                        .setBounded(OffsetsInitializer.latest())
                        .setProperty("max.poll.records", "50")
                        .setValueOnlyDeserializer(new SimpleStringSchema())
                        .build();
        KafkaSink<String> sink =
                KafkaSink.<String>builder()
                        .setBootstrapServers(bootstrap)
                        .setRecordSerializer(
                                KafkaRecordSerializationSchema.<String>builder()
                                        .setTopic(topic + "-sums")
                                        .setValueSerializationSchema(new SimpleStringSchema())
                                        .build())
                        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                        .setTransactionalIdPrefix(group)
                        .setProperty("transaction.timeout.ms", "60000")
                        .build();
        flow.fromSource(source, WatermarkStrategy.noWatermarks(), "numbers")
                .map(Integer::parseInt)
                .keyBy(number -> number % 10)
                .map(new Sum(failAfter, mark))
                .sinkTo(sink);
        flow.execute("sums");
    }

    /** "number:sum" for each number. */
    public static final class Sum extends RichMapFunction<Integer, String> {
        private final int failAfter;
        private final String mark;
        private transient ValueState<Long> sum;
        private transient int seen;

        Sum(int failAfter, String mark) {
            this.failAfter = failAfter;
            this.mark = mark;
        }

        @Override
        public void open(OpenContext context) {
            sum = getRuntimeContext().getState(new ValueStateDescriptor<>("sum", Long.class));
        }

        @Override
        public String map(Integer number) throws Exception {
            seen++;
            if (seen % 20 == 0) {
                Thread.sleep(5); // several checkpoints fall into one run
            }
            Path failed = Path.of(mark);
            if (failAfter > 0 && seen > failAfter && !Files.exists(failed)) {
                Files.createFile(failed);
                throw new IllegalStateException("the failure that the test asked for");
            }
            long total = (sum.value() == null ? 0L : sum.value()) + number;
            sum.update(total);
            return number + ":" + total;
        }
    }
}
