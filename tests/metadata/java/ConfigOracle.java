// Prints Apache Kafka's definition of every configuration key, and the results of validating sample values.
// Argument: a file of samples, each `resource <tab> key <tab> value` with the value in the escapes of Java's properties.
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

public class ConfigOracle {
    private static final Map<String, ConfigDef> DEFINITIONS = Map.of(
        "BROKER", brokerDefinition(),
        "TOPIC", LogConfig.configDefCopy(),
        "GROUP", GroupConfig.CONFIG_DEF,
        "CLIENT_METRICS", ClientMetricsConfigs.configDef());

    private static ConfigDef brokerDefinition() {
        ConfigDef all = new ConfigDef(AbstractKafkaConfig.CONFIG_DEF);
        QuotaConfig.brokerQuotaConfigs().configKeys().values().forEach(all::define);
        return all;
    }

    public static void main(String[] arguments) throws Exception {
        DEFINITIONS.forEach(ConfigOracle::printKeys);
        printSynonyms();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] sample = line.split("\t", -1);
            printSample(sample[0], sample[1], unescape(sample[2]));
        }
    }

    private static void printKeys(String resource, ConfigDef definition) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(definition.configKeys()).values()) {
            String text = !key.hasDefault() ? "required" : "default " + ConfigDef.convertToString(key.defaultValue, key.type);
            print("key", resource, key.name, key.type.toString(), text, Boolean.toString(key.internalConfig), mode(resource, key.name));
        }
    }

    private static String mode(String resource, String name) {
        return resource.equals("BROKER") ? DynamicBrokerConfig.dynamicConfigUpdateModes().getOrDefault(name, "read-only") : "";
    }

    private static void printSynonyms() {
        ServerTopicConfigSynonyms.TOPIC_CONFIG_SYNONYMS.forEach((topic, broker) -> print("synonym", "TOPIC", topic, broker));
        GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.forEach((group, broker) -> print("synonym", "GROUP", group, broker.orElse("")));
        for (String name : AbstractKafkaConfig.CONFIG_DEF.names()) {
            print("synonym", "BROKER", name, String.join(",", DynamicBrokerConfig.brokerConfigSynonyms(name, true)));
        }
        print("listener-only", String.join(",", new TreeSet<>(DynamicBrokerConfig.DYNAMIC_SECURITY_CONFIGS)));
    }

    private static void printSample(String resource, String name, String value) {
        ConfigDef.ConfigKey key = DEFINITIONS.get(resource).configKeys().get(name);
        ConfigDef alone = new ConfigDef().define(key);
        try {
            Object parsed = alone.parse(Map.of(name, value)).get(name);
            print("sample", "taken", escape(ConfigDef.convertToString(parsed, key.type)));
        } catch (ConfigException refused) {
            print("sample", "refused", escape(refused.getMessage()));
        }
    }

    private static String unescape(String text) {
        StringBuilder plain = new StringBuilder();
        for (int at = 0; at < text.length(); at++) {
            if (text.charAt(at) == '\\') {
                plain.append((char) Integer.parseInt(text.substring(at + 2, at + 6), 16));
                at += 5;
            } else {
                plain.append(text.charAt(at));
            }
        }
        return plain.toString();
    }

    private static String escape(String text) {
        StringBuilder escaped = new StringBuilder();
        for (char letter : text.toCharArray()) {
            boolean plain = letter >= ' ' && letter < 127 && letter != '\\';
            escaped.append(plain ? String.valueOf(letter) : String.format("\\u%04x", (int) letter));
        }
        return escaped.toString();
    }

    private static void print(String... columns) {
        System.out.println(String.join("\t", columns));
    }
}
