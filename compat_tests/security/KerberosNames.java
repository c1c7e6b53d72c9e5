// Prints the short name of each principal by each set of rules, made by Apache Kafka. Arguments are groups of default
// realm, rules (comma-separated) and principals, with "--" between the groups.
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

public class KerberosNames {
    public static void main(String[] words) {
        List<String> group = new ArrayList<>();
        for (String word : words) {
            if (!word.equals("--")) {
                group.add(word);
                continue;
            }
            print(group);
            group.clear();
        }
        print(group);
    }

    private static void print(List<String> group) {
        KerberosShortNamer namer;
        try {
            namer = KerberosShortNamer.fromUnparsedRules(group.get(0), Arrays.asList(group.get(1).split(",")));
        } catch (IllegalArgumentException refused) {
            System.out.println("invalid");
            return;
        }
        for (String principal : group.subList(2, group.size())) {
            try {
                System.out.println("is " + namer.shortName(KerberosName.parse(principal)));
            } catch (Exception refused) {
                System.out.println("none");
            }
        }
    }
}
