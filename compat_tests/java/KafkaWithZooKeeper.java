import org.apache.zookeeper.server.ServerConfig;
import org.apache.zookeeper.server.ZooKeeperServerMain;

/** Starts ZooKeeper and a broker that uses it: one JVM instead of two. Arguments: ZooKeeper's port, its folder, the properties. */
public final class KafkaWithZooKeeper {
    public static void main(String[] arguments) {
        ServerConfig config = new ServerConfig();
        config.parse(new String[] {arguments[0], arguments[1]});
        Thread keeper = new Thread(() -> {
            try {
                new ZooKeeperServerMain().runFromConfig(config);
            } catch (Exception failure) {
                failure.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        });
        keeper.setDaemon(true);
        keeper.start();
        kafka.Kafka.main(new String[] {arguments[2]});
    }
}
