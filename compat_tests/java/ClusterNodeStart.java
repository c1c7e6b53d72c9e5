import java.io.OutputStream;
import java.io.PrintStream;

/** Starts a node whose voters are in its properties; formats its storage before if needed. */
public final class ClusterNodeStart {
    public static void main(String[] arguments) {
        String[] format = {"format", "--cluster-id", arguments[0], "--config", arguments[1], "--ignore-formatted"};
        int status = kafka.tools.StorageTool.execute(format, new PrintStream(OutputStream.nullOutputStream()));
        if (status != 0) System.exit(status);
        kafka.Kafka.main(new String[] {arguments[1]});
    }
}
