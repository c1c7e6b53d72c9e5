import java.io.OutputStream;
import java.io.PrintStream;

/** Formats the storage of a node whose voters are in its properties, when it is not yet, and starts it. */
public final class ClusterNodeStart {
    public static void main(String[] arguments) {
        String[] format = {"format", "--cluster-id", arguments[0], "--config", arguments[1], "--ignore-formatted"};
        int status = kafka.tools.StorageTool.execute(format, new PrintStream(OutputStream.nullOutputStream()));
        if (status != 0) System.exit(status);
        kafka.Kafka.main(new String[] {arguments[1]});
    }
}
