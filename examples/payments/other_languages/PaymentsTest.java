// The test of the service in Java: `java PaymentsTest.java`. Only the standard library is needed.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public final class PaymentsTest {
    private static final String PYTHON = System.getenv().getOrDefault("PYTHON", "python3");
    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static String control;

    public static void main(String[] arguments) throws Exception {
        // Brokers end when their input does: with `close`, and with this process.
        Process broker = new ProcessBuilder(PYTHON, "-m", "odradek.testing").redirectError(ProcessBuilder.Redirect.INHERIT).start();
        Process service = null;
        try {
            String told = broker.inputReader().readLine();
            control = field(told, "control");
            String orders = "[\"" + base64("order 1") + "\", \"" + base64("order 2") + "\"]";
            ask("POST", "/v1/topics/orders/records", "{\"values\": " + orders + "}");
            String fault = ask("POST", "/v1/faults",
                "{\"kind\": \"drop\", \"api\": \"Produce\", \"after\": true, \"topic\": \"payments\", \"times\": 1}");
            service = new ProcessBuilder(PYTHON, "../service.py", field(told, "bootstrap_servers")).start();
            ask("GET", "/v1/groups/payments?lag=0", "");
            check("1", field(ask("GET", "/v1/faults/" + field(fault, "id"), ""), "count"), "times that the fault struck");
            String payments = ask("GET", "/v1/topics/payments/records", "");
            check("2", "" + (payments.split("\"offset\"", -1).length - 1), "payments");
        } finally {
            if (service != null) {
                service.destroyForcibly();
            }
            broker.getOutputStream().close();
            broker.waitFor();
        }
    }

    private static void check(String expected, String found, String what) {
        if (!expected.equals(found)) {
            throw new AssertionError(what + ": " + expected + " expected, " + found + " found");
        }
    }

    private static String base64(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes());
    }

    private static String ask(String method, String path, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(control + path))
            .header("Content-Type", "application/json").method(method, BodyPublishers.ofString(body)).build();
        var response = HTTP.send(request, BodyHandlers.ofString());
        check("200", "" + response.statusCode(), path + " " + response.body());
        return response.body();
    }

    private static String field(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": \"?([^\",}]*)").matcher(json);
        if (!found.find()) {
            throw new AssertionError(name + " is not in " + json);
        }
        return found.group(1);
    }
}
