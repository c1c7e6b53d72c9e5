// Prints the steps of Apache Kafka's own tests of tiered storage as JSON, one test in a line. The tests extend a harness that
// starts brokers in this JVM, of classes that Apache does not publish; a class without them stands in its place, since the
// steps need none.

import java.io.File;
import java.io.FilenameFilter;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import javax.tools.ToolProvider;

public class TieredSpecifications {
    private static final String STORAGE = "org.apache.kafka.tiered.storage";
    private static final String[] NAMES = {"leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "0.log"};
    private static final String HARNESS = "package org.apache.kafka.tiered.storage;\n"
        + "import java.util.*;\n"
        + "public abstract class TieredStorageTestHarness {\n"
        + "    protected abstract void writeTestSpecifications(TieredStorageTestBuilder builder);\n"
        + "    public int brokerCount() { return 1; }\n"
        + "    protected int numRemoteLogMetadataPartitions() { return 5; }\n"
        + "    public Properties overridingProps() { return new Properties(); }\n"
        + "    protected void overrideConsumerConfig(Properties config) { }\n"
        + "}\n";

    // What the steps are checked with as they are written.
    private static final String ASSERTIONS = "package org.junit.jupiter.api;\n"
        + "public class Assertions {\n"
        + "    private static void check(boolean holds, Object words) { if (!holds) throw new AssertionError(words); }\n"
        + "    public static void assertTrue(boolean holds) { check(holds, null); }\n"
        + "    public static void assertTrue(boolean holds, String words) { check(holds, words); }\n"
        + "    public static void assertFalse(boolean holds) { check(!holds, null); }\n"
        + "    public static void assertFalse(boolean holds, String words) { check(!holds, words); }\n"
        + "    public static void assertEquals(int a, int b) { check(a == b, a + \" is not \" + b); }\n"
        + "    public static void assertEquals(Object a, Object b) { check(a.equals(b), a + \" is not \" + b); }\n"
        + "    public static void assertNotNull(Object a) { check(a != null, null); }\n"
        + "}\n";

    // The clock of a test.
    private static final String MOCK_TIME = "package org.apache.kafka.common.utils;\n"
        + "public class MockTime implements Time {\n"
        + "    public long milliseconds() { return System.currentTimeMillis(); }\n"
        + "    public long nanoseconds() { return System.nanoTime(); }\n"
        + "    public void sleep(long ms) { }\n"
        + "    public void waitObject(Object object, java.util.function.Supplier<Boolean> holds, long until) { }\n"
        + "}\n";

    public static void main(String[] names) throws Exception {
        Path folder = Files.createTempDirectory("harness");
        Path source = folder.resolve("TieredStorageTestHarness.java");
        Files.writeString(source, HARNESS);
        Path assertions = folder.resolve("Assertions.java");
        Files.writeString(assertions, ASSERTIONS);
        List<URL> urls = new ArrayList<>(List.of(folder.toUri().toURL()));
        for (String element : System.getProperty("java.class.path").split(File.pathSeparator)) {
            for (File file : element.endsWith("*") ? new File(element.replace("*", "")).listFiles() : new File[] {new File(element)}) {
                urls.add(file.toURI().toURL());
            }
        }
        Path time = folder.resolve("MockTime.java");
        Files.writeString(time, MOCK_TIME);
        int status = ToolProvider.getSystemJavaCompiler().run(null, null, System.err, "-d", folder.toString(), "-cp",
            System.getProperty("java.class.path"), "-proc:none", source.toString(), assertions.toString(), time.toString());
        if (status != 0) throw new IllegalStateException("the harness does not compile");
        try (URLClassLoader loader = new Stubs(urls.toArray(new URL[0]), folder)) {
            for (String name : names) System.out.println(steps(loader, name));
        }
    }

    // Has an empty interface in the place of each class of a library for assertions, which steps name and do not use.
    private static class Stubs extends URLClassLoader {
        private final Path folder;

        Stubs(URL[] urls, Path folder) {
            super(urls, ClassLoader.getPlatformClassLoader());
            this.folder = folder;
        }

        @Override
        protected Class<?> findClass(String name) throws ClassNotFoundException {
            try {
                return super.findClass(name);
            } catch (ClassNotFoundException missing) {
                if (!name.startsWith("org.hamcrest.") && !name.startsWith("org.junit.")) throw missing;
                String simple = name.substring(name.lastIndexOf('.') + 1);
                try {
                    Path source = folder.resolve(simple + ".java");
                    Files.writeString(source, "package " + name.substring(0, name.lastIndexOf('.')) + "; public interface " + simple + " { }");
                    ToolProvider.getSystemJavaCompiler().run(null, null, System.err, "-d", folder.toString(), "-proc:none", source.toString());
                } catch (java.io.IOException error) {
                    throw new ClassNotFoundException(name, error);
                }
                return super.findClass(name);
            }
        }
    }

    private static String steps(ClassLoader loader, String name) throws Exception {
        Class<?> test = loader.loadClass(STORAGE + ".integration." + name);
        Class<?> builder = loader.loadClass(STORAGE + ".TieredStorageTestBuilder");
        var constructor = test.getDeclaredConstructor();
        constructor.setAccessible(true);
        Object harness = constructor.newInstance();
        Object made = builder.getDeclaredConstructor().newInstance();
        Method write = find(test, "writeTestSpecifications", builder);
        write.invoke(harness, made);
        Object actions = builder.getMethod("complete").invoke(made);
        return "{\"test\":" + json(name) + ",\"brokers\":" + find(test, "brokerCount").invoke(harness) + ",\"metadata_partitions\":"
            + find(test, "numRemoteLogMetadataPartitions").invoke(harness) + ",\"properties\":"
            + json(find(test, "overridingProps").invoke(harness)) + ",\"actions\":" + json(actions) + "}";
    }

    private static Method find(Class<?> from, String name, Class<?>... types) throws Exception {
        for (Class<?> at = from; at != null; at = at.getSuperclass()) {
            try {
                Method found = at.getDeclaredMethod(name, types);
                found.setAccessible(true);
                return found;
            } catch (NoSuchMethodException missing) {
                continue;
            }
        }
        throw new NoSuchMethodException(name);
    }

    private static String json(Object value) throws Exception {
        if (value == null) return "null";
        if (value instanceof Optional<?> optional) return json(optional.orElse(null));
        if (value instanceof Number || value instanceof Boolean) return value.toString();
        if (value instanceof CharSequence || value instanceof Enum<?>) return quoted(value.toString());
        if (value instanceof Collection<?> collection) {
            List<String> parts = new ArrayList<>();
            for (Object one : collection) parts.add(json(one));
            return "[" + String.join(",", parts) + "]";
        }
        if (value instanceof Map<?, ?> map) {
            List<String> parts = new ArrayList<>();
            for (Map.Entry<?, ?> one : map.entrySet()) parts.add(quoted(one.getKey().toString()) + ":" + json(one.getValue()));
            return "{" + String.join(",", parts) + "}";
        }
        if (value instanceof FilenameFilter filter) {
            List<String> parts = new ArrayList<>();
            for (String name : NAMES) if (filter.accept(new File("."), name)) parts.add(quoted(name));
            return "[" + String.join(",", parts) + "]";
        }
        String type = value.getClass().getName();
        if (!type.startsWith("org.apache.kafka") || type.contains("serialization")) return quoted(type);
        List<String> parts = new ArrayList<>(List.of("\"type\":" + quoted(value.getClass().getSimpleName())));
        for (Class<?> at = value.getClass(); at != Object.class; at = at.getSuperclass()) {
            for (Field field : at.getDeclaredFields()) {
                if (Modifier.isStatic(field.getModifiers())) continue;
                field.setAccessible(true);
                parts.add(quoted(field.getName()) + ":" + json(field.get(value)));
            }
        }
        return "{" + String.join(",", parts) + "}";
    }

    private static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + "\"";
    }
}
