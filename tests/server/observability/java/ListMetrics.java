// Prints the metrics that a Kafka offers by JMX: domain, type, name (or "") and attribute, one attribute a line.
// Argument: the port of its JMX agent.
import java.util.Set;
import java.util.TreeSet;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

public class ListMetrics {
    public static void main(String[] arguments) throws Exception {
        String url = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + arguments[0] + "/jmxrmi";
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(url))) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            Set<String> lines = new TreeSet<>();
            for (ObjectName bean : server.queryNames(new ObjectName("kafka.*:*"), null)) {
                for (MBeanAttributeInfo attribute : server.getMBeanInfo(bean).getAttributes()) {
                    lines.add(String.join("\t", bean.getDomain(), key(bean, "type"), key(bean, "name"), attribute.getName()));
                }
            }
            lines.forEach(System.out::println);
        }
    }

    private static String key(ObjectName bean, String name) {
        String value = bean.getKeyProperty(name);
        return value == null ? "" : value;
    }
}
