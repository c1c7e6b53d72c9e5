// Gets a token with Apache Kafka's classes for each group of arguments; prints "got" or "failed". A group is the name
// of the retriever's class, properties KEY=VALUE, and options of the login module jaas:KEY=VALUE; "--" ends it.
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.security.oauthbearer.JwtRetriever;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule;

public class OAuthTokens {
    public static void main(String[] words) throws Exception {
        List<String> group = new ArrayList<>();
        for (String word : words) {
            if (!word.equals("--")) {
                group.add(word);
                continue;
            }
            get(group);
            group.clear();
        }
    }

    private static void get(List<String> group) throws Exception {
        Map<String, String> properties = new HashMap<>();
        Map<String, String> options = new HashMap<>();
        for (String word : group.subList(1, group.size())) {
            String[] pair = word.split("=", 2);
            if (pair[0].startsWith("jaas:")) {
                options.put(pair[0].substring("jaas:".length()), pair[1]);
            } else {
                properties.put(pair[0], pair[1]);
            }
        }
        AppConfigurationEntry.LoginModuleControlFlag required = AppConfigurationEntry.LoginModuleControlFlag.REQUIRED;
        AppConfigurationEntry entry = new AppConfigurationEntry(OAuthBearerLoginModule.class.getName(), required, options);
        ConfigDef keys = new ConfigDef();
        SaslConfigs.addClientSaslSupport(keys);
        try (JwtRetriever retriever = (JwtRetriever) Class.forName(group.get(0)).getDeclaredConstructor().newInstance()) {
            retriever.configure(new AbstractConfig(keys, properties).values(), "OAUTHBEARER", List.of(entry));
            System.out.println(retriever.retrieve().isEmpty() ? "empty" : "got");
        } catch (RuntimeException failure) {
            System.out.println("failed");
        }
    }
}
