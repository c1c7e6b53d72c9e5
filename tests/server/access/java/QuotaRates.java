import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.SimpleRate;
import org.apache.kafka.common.metrics.stats.TokenBucket;

/** Reads "windows window_ms" and "new", "bound B", "add VALUE NOW", "ask NOW"; answers each "ask" with Kafka's measures. */
public class QuotaRates {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        MetricConfig config = new MetricConfig();
        Rate rate = new Rate();
        SimpleRate simple = new SimpleRate();
        TokenBucket bucket = new TokenBucket();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "new" -> {
                    config = new MetricConfig().samples(Integer.parseInt(words[1]))
                        .timeWindow(Long.parseLong(words[2]), TimeUnit.MILLISECONDS)
                        .quota(new Quota(Double.parseDouble(words[3]), true));
                    rate = new Rate();
                    simple = new SimpleRate();
                    bucket = new TokenBucket();
                }
                case "add" -> {
                    simple.record(config, Double.parseDouble(words[1]), Long.parseLong(words[2]));
                    rate.record(config, Double.parseDouble(words[1]), Long.parseLong(words[2]));
                    bucket.record(config, Double.parseDouble(words[1]), Long.parseLong(words[2]));
                }
                default -> {
                    long now = Long.parseLong(words[1]);
                    System.out.println(rate.measure(config, now) + " " + rate.windowSize(config, now)
                        + " " + simple.measure(config, now) + " " + simple.windowSize(config, now)
                        + " " + bucket.measure(config, now));
                }
            }
        }
    }
}
