import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/** Runs tools one after the other in one JVM: a line of JSON in, a line of JSON out. A tool's exit becomes an exception. */
public final class ToolHost {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Thrown when a tool calls exit: it ends the tool's run instead of the JVM. */
    private static final class ExitAsked extends Error {
        final int status;

        ExitAsked(int status) {
            super("exit asked: " + status, null, false, false);
            this.status = status;
        }
    }

    private static volatile Integer asked;

    public static void main(String[] ignored) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        BufferedReader requests = new BufferedReader(
            new InputStreamReader(new FileInputStream(FileDescriptor.in), StandardCharsets.UTF_8));
        // Output of a thread after the end of its tool must not mix with the answers.
        System.setOut(System.err);
        Exit.Procedure throwing = (status, message) -> {
            if (asked == null) asked = status;
            throw new ExitAsked(status);
        };
        Exit.setExitProcedure(throwing);
        Exit.setHaltProcedure(throwing);
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(run(JSON.readTree(line))));
        }
    }

    private static ObjectNode run(JsonNode request) throws Exception {
        PrintStream out = System.out, err = System.err;
        ByteArrayOutputStream written = new ByteArrayOutputStream(), complaints = new ByteArrayOutputStream();
        List<Runnable> hooks = new ArrayList<>();
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        System.setOut(new PrintStream(written, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complaints, true, StandardCharsets.UTF_8));
        System.setIn(new ByteArrayInputStream(request.get("stdin").asText().getBytes(StandardCharsets.UTF_8)));
        int status;
        try {
            status = call(request);
            for (Runnable hook : hooks) hook.run();
        } catch (Throwable failure) {
            failure.printStackTrace();
            status = 1;
        } finally {
            System.out.flush();
            System.err.flush();
            System.setOut(out);
            System.setErr(err);
        }
        ObjectNode answer = JSON.createObjectNode();
        answer.put("status", status);
        answer.put("out", written.toString(StandardCharsets.UTF_8));
        answer.put("err", complaints.toString(StandardCharsets.UTF_8).replaceAll("(?m)^.*exit asked: \\d+\n+", ""));
        return answer;
    }

    private static int call(JsonNode request) throws Throwable {
        List<String> arguments = new ArrayList<>();
        request.get("arguments").forEach(argument -> arguments.add(argument.asText()));
        Method main = Class.forName(request.get("tool").asText()).getMethod("main", String[].class);
        asked = null;
        try {
            main.invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (InvocationTargetException wrapped) {
            // Several tools catch Throwable around their exit and exit again; the first status is the valid one.
            if (!(wrapped.getCause() instanceof ExitAsked)) throw wrapped.getCause();
        }
        return asked == null ? 0 : asked;
    }
}
