// Policies, a principal builder and a quota callback that note their arguments. own_classes.py has the same for Odradek.
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.common.security.auth.AuthenticationContext;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.KafkaPrincipalBuilder;
import org.apache.kafka.common.security.auth.KafkaPrincipalSerde;
import org.apache.kafka.common.security.auth.SaslAuthenticationContext;
import org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder;
import org.apache.kafka.server.policy.AlterConfigPolicy;
import org.apache.kafka.server.policy.CreateTopicPolicy;
import org.apache.kafka.server.quota.ClientQuotaCallback;
import org.apache.kafka.server.quota.ClientQuotaEntity;
import org.apache.kafka.server.quota.ClientQuotaType;

public class OwnClasses {
    private static final Path LOG = Path.of(System.getenv("OWN_CLASSES_LOG"));

    private static synchronized void note(String line) {
        try {
            Files.writeString(LOG, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    private static void check(String name) {
        if (name.startsWith("bad")) {
            throw new PolicyViolationException(name + " is a bad name");
        }
        if (name.startsWith("wordless")) {
            throw new PolicyViolationException(null);
        }
        if (name.startsWith("broken")) {
            throw new IllegalStateException("s3cret");
        }
    }

    private static <K, V> Map<K, V> sorted(Map<K, V> map) {
        return map == null ? null : new TreeMap<>(map);
    }

    public static class Topics implements CreateTopicPolicy {
        @Override
        public void configure(Map<String, ?> properties) {
            note("configured by " + properties.get("own.word"));
        }

        @Override
        public void validate(RequestMetadata request) {
            note("topic " + request.topic() + " " + request.numPartitions() + " " + request.replicationFactor() + " "
                + sorted(request.replicasAssignments()) + " " + sorted(request.configs()));
            check(request.topic());
        }

        @Override
        public void close() {
        }
    }

    public static class Configs implements AlterConfigPolicy {
        @Override
        public void configure(Map<String, ?> properties) {
        }

        @Override
        public void validate(RequestMetadata request) {
            note("config " + request.resource().type() + " '" + request.resource().name() + "' " + sorted(request.configs()));
            if ("4343".equals(request.configs().get("max.message.bytes"))) {
                throw new PolicyViolationException(null);
            }
            if ("4444".equals(request.configs().get("max.message.bytes"))) {
                throw new IllegalStateException("s3cret");
            }
            if ("4242".equals(request.configs().get("max.message.bytes"))) {
                throw new PolicyViolationException("4242 is no size");
            }
        }

        @Override
        public void close() {
        }
    }

    public static class Principals implements KafkaPrincipalBuilder, KafkaPrincipalSerde {
        private final DefaultKafkaPrincipalBuilder standard = new DefaultKafkaPrincipalBuilder(null, null);

        @Override
        public KafkaPrincipal build(AuthenticationContext context) {
            String login = "";
            if (context instanceof SaslAuthenticationContext) {
                SaslAuthenticationContext sasl = (SaslAuthenticationContext) context;
                login = sasl.server().getMechanismName() + " " + sasl.server().getAuthorizationID();
            }
            note("principal " + context.listenerName() + " " + context.securityProtocol() + " "
                + context.clientAddress().getHostAddress() + " " + login);
            if (login.endsWith("nobody")) {
                throw new IllegalStateException("it is nobody");
            }
            return login.isEmpty() ? KafkaPrincipal.ANONYMOUS : new KafkaPrincipal("Team", login.split(" ")[1]);
        }

        @Override
        public byte[] serialize(KafkaPrincipal principal) {
            return standard.serialize(principal);
        }

        @Override
        public KafkaPrincipal deserialize(byte[] bytes) {
            return standard.deserialize(bytes);
        }
    }

    public static class Quotas implements ClientQuotaCallback {
        @Override
        public void configure(Map<String, ?> properties) {
        }

        @Override
        public Map<String, String> quotaMetricTags(ClientQuotaType type, KafkaPrincipal principal, String clientId) {
            note("quota " + type + " " + principal + " '" + clientId + "'");
            return Map.of("team", clientId.split("-")[0]);
        }

        @Override
        public Double quotaLimit(ClientQuotaType type, Map<String, String> tags) {
            return type == ClientQuotaType.PRODUCE && "slow".equals(tags.get("team")) ? 10_000.0 : null;
        }

        @Override
        public void updateQuota(ClientQuotaType type, ClientQuotaEntity entity, double value) {
        }

        @Override
        public void removeQuota(ClientQuotaType type, ClientQuotaEntity entity) {
        }

        @Override
        public boolean quotaResetRequired(ClientQuotaType type) {
            return false;
        }

        @Override
        public boolean updateClusterMetadata(Cluster cluster) {
            return false;
        }

        @Override
        public void close() {
        }
    }
}
