import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeStreamsGroupsOptions;
import org.apache.kafka.clients.admin.StreamsGroupDescription;

/**
 * Describes and deletes streams groups with Apache's admin client: `BOOTSTRAP`, then a line `describe GROUP` or `delete GROUP`
 * on standard input for each. Prints the status of the topology's description, and the description, or the error; then a dot.
 */
public final class Describer {
    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]));
             BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ");
                try {
                    if (words[0].equals("delete")) {
                        admin.deleteStreamsGroups(List.of(words[1])).all().get();
                        System.out.println("deleted");
                    } else {
                        describe(admin, words[1]);
                    }
                } catch (Exception error) {
                    System.out.println("error " + (error.getCause() == null ? error : error.getCause()));
                }
                System.out.println(".");
            }
        }
    }

    private static void describe(Admin admin, String group) throws Exception {
        DescribeStreamsGroupsOptions options = new DescribeStreamsGroupsOptions().includeTopologyDescription(true);
        StreamsGroupDescription told = admin.describeStreamsGroups(List.of(group), options).describedGroups().get(group).get();
        System.out.println(told.topologyDescriptionStatus());
        told.topologyDescription().ifPresent(topology -> {
            topology.subtopologies().forEach(one -> one.nodes().forEach(node -> System.out.println(node)));
            topology.globalStores().forEach(System.out::println);
        });
    }
}
