import java.io.OutputStream;
import java.io.PrintStream;

/** Starts the broker, and formats its storage before if needed: one JVM instead of two. */
public final class OracleStart {
    public static void main(String[] arguments) {
        String[] format = {
            "format", "--cluster-id", arguments[0], "--config", arguments[1], "--ignore-formatted", "--standalone"};
        int status = kafka.tools.StorageTool.execute(format, new PrintStream(OutputStream.nullOutputStream()));
        if (status != 0) System.exit(status);
        kafka.Kafka.main(new String[] {arguments[1]});
    }
}
