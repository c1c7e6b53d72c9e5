// Prints the properties that java.util.Properties reads in each named file: key and value of each that has a key, in
// hexadecimal UTF-16.
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Properties;
import java.util.TreeSet;

public class ReadProperties {
    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties properties = new Properties();
            try (Reader reader = Files.newBufferedReader(Path.of(file))) {
                properties.load(reader);
            } catch (IllegalArgumentException refused) {
                System.out.println("refused");
                continue;
            }
            StringBuilder line = new StringBuilder("taken");
            for (String key : new TreeSet<>(properties.stringPropertyNames())) {
                if (key.isEmpty()) {
                    continue;
                }
                line.append(' ').append(hex(key)).append('=').append(hex(properties.getProperty(key)));
            }
            System.out.println(line);
        }
    }

    private static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_16BE));
    }
}
