import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * One JVM for many steps of the interop test: reads a command per line from stdin, runs it, and
 * answers on stdout with "ok COUNT" or "failed COUNT" followed by COUNT lines. Words are separated
 * by one blank; no word contains one.
 *
 * <pre>
 *   admin ARGS...                        what mqadmin prints for these arguments
 *   send NS TOPIC GROUP COUNT PREFIX     a line "BROKER QUEUE BODY" for each message stored
 *   consume NS TOPIC GROUP COUNT MILLIS  the body of each message received, one a line
 *   stream NS TOPIC GROUP PREFIX         starts a producer that sends until the next "stop"
 *   progress                             "SENT FAILED" of that producer
 *   stop                                 "SENT FAILED", then a line for each failed send
 * </pre>
 *
 * Everything that the libraries print by themselves goes to stderr, so that it cannot be taken for
 * an answer.
 */
public final class Shell {
    private Shell() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, "UTF-8");
        System.setOut(System.err);
        Clients clients = new Clients();
        BufferedReader commands =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = commands.readLine()) != null) {
            answer(answers, clients, line.split(" "));
        }
        // The clients' threads would keep the JVM alive.
        System.exit(0);
    }

    private static void answer(PrintStream answers, Clients clients, String[] words) {
        String state = "ok";
        List<String> lines;
        try {
            lines = run(clients, words);
        } catch (Exception failure) {
            failure.printStackTrace();
            state = "failed";
            lines = Arrays.asList(failure.toString().split("\n"));
        }
        answers.print(state + " " + lines.size() + "\n");
        for (String line : lines) {
            answers.print(line + "\n");
        }
        answers.flush();
    }

    private static List<String> run(Clients clients, String[] words) throws Exception {
        switch (words[0]) {
            case "admin":
                return admin(Arrays.copyOfRange(words, 1, words.length));
            case "send":
                return clients.send(
                    words[1], words[2], words[3], Integer.parseInt(words[4]), words[5]);
            case "consume":
                return clients.consume(words[1], words[2], words[3],
                    Integer.parseInt(words[4]), Long.parseLong(words[5]));
            case "stream":
                return clients.stream(words[1], words[2], words[3], words[4]);
            case "progress":
                return clients.progress();
            case "stop":
                return clients.stop();
            default:
                throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    /** mqadmin reports success and failure by what it prints alone, so both streams are kept. */
    private static List<String> admin(String[] args) throws Exception {
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(printed, true, "UTF-8");
        System.setOut(both);
        System.setErr(both);
        try {
            MQAdminStartup.main0(args, null);
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return Arrays.asList(printed.toString("UTF-8").split("\r?\n"));
    }
}
