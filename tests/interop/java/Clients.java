import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.exception.RemotingSendRequestException;
import org.apache.rocketmq.remoting.exception.RemotingTimeoutException;

/** Producers and consumers of the release that this JVM was started with. */
final class Clients {
    /** Sends of a slow machine are repeated by the client itself, at another queue. */
    private static final int SEND_RETRIES = 5;
    private static final int SEND_TIMEOUT_MS = 5_000;
    /** How often a client asks the name server again: the smallest useful value. */
    private static final int POLL_MS = 1_000;
    private static final int STREAM_PAUSE_MS = 20;
    /** After the last expected message: time for one that should not come to come. */
    private static final int SURPLUS_MS = 300;

    /** A JVM on a busy machine loads classes for longer than a request may take. */
    private static final int FIRST_TRIES = 4;
    /** A topic that every broker has. */
    private static final String DEFAULT_TOPIC = "TBW102";

    private Stream stream;

    List<String> send(String ns, String topic, String group, int count, String prefix)
        throws Exception {
        DefaultMQProducer producer = producer(ns, group);
        List<String> stored = new ArrayList<>();
        try {
            for (int i = 0; i < count; i++) {
                stored.add(sendOne(producer, topic, prefix + i));
            }
        } finally {
            producer.shutdown();
        }
        return stored;
    }

    /** Ends when count different bodies are there, or with what there is after the timeout. */
    List<String> consume(String ns, String topic, String group, int count, long timeoutMs)
        throws Exception {
        BlockingQueue<String> bodies = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(ns);
        consumer.setInstanceName(group);
        consumer.setPollNameServerInterval(POLL_MS);
        consumer.setHeartbeatBrokerInterval(POLL_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                bodies.add(new String(message.getBody(), StandardCharsets.UTF_8));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        List<String> received = new ArrayList<>();
        try {
            collect(bodies, received, count, timeoutMs);
        } finally {
            consumer.shutdown();
        }
        return received;
    }

    private static void collect(
        BlockingQueue<String> bodies, List<String> received, int count, long timeoutMs)
        throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
        Set<String> different = new HashSet<>();
        while (different.size() < count) {
            String body = bodies.poll(end - System.nanoTime(), TimeUnit.NANOSECONDS);
            if (body == null) {
                return;
            }
            received.add(body);
            different.add(body);
        }
        Thread.sleep(SURPLUS_MS);
        bodies.drainTo(received);
    }

    List<String> stream(String ns, String topic, String group, String prefix) throws Exception {
        if (stream != null) {
            throw new IllegalStateException("a stream is running");
        }
        stream = new Stream(producer(ns, group), topic, prefix);
        stream.start();
        return Collections.emptyList();
    }

    List<String> progress() {
        return Collections.singletonList(stream.counts());
    }

    List<String> stop() throws InterruptedException {
        Stream ended = stream;
        stream = null;
        ended.end();
        List<String> report = new ArrayList<>();
        report.add(ended.counts());
        report.addAll(ended.failures);
        return report;
    }

    private static DefaultMQProducer producer(String ns, String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(ns);
        producer.setInstanceName(group);
        producer.setPollNameServerInterval(POLL_MS);
        producer.setHeartbeatBrokerInterval(POLL_MS);
        producer.setSendMsgTimeout(SEND_TIMEOUT_MS);
        producer.setRetryTimesWhenSendFailed(SEND_RETRIES);
        producer.start();
        connect(producer);
        return producer;
    }

    /**
     * The first request may time out where the machine is slow, which a send does not repeat:
     * have it behind us before anything is judged. The client then closes its connection, under
     * the request of its other thread, too. Any other failure counts.
     */
    private static void connect(DefaultMQProducer producer) throws MQClientException {
        for (int tries = 1; ; tries++) {
            try {
                producer.fetchPublishMessageQueues(DEFAULT_TOPIC);
                return;
            } catch (MQClientException failure) {
                boolean late = failure.getCause() instanceof RemotingTimeoutException
                    || failure.getCause() instanceof RemotingSendRequestException;
                if (!late || tries == FIRST_TRIES) {
                    throw failure;
                }
            }
        }
    }

    private static String sendOne(DefaultMQProducer producer, String topic, String body)
        throws Exception {
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        SendResult result = producer.send(new Message(topic, bytes));
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(body + ": " + result.getSendStatus());
        }
        return result.getMessageQueue().getBrokerName() + " "
            + result.getMessageQueue().getQueueId() + " " + body;
    }

    /** A producer that never pauses for long: body PREFIX0, PREFIX1, … until it is told to end. */
    private static final class Stream extends Thread {
        private final DefaultMQProducer producer;
        private final String topic;
        private final String prefix;
        private final List<String> failures = Collections.synchronizedList(new ArrayList<>());
        private volatile int sent;
        private volatile boolean ending;

        Stream(DefaultMQProducer producer, String topic, String prefix) {
            this.producer = producer;
            this.topic = topic;
            this.prefix = prefix;
        }

        @Override
        public void run() {
            for (int i = 0; !ending; i++) {
                try {
                    sendOne(producer, topic, prefix + i);
                } catch (Exception failure) {
                    failures.add(prefix + i + " " + failure.toString().replace('\n', ' '));
                }
                sent = i + 1;
                try {
                    Thread.sleep(STREAM_PAUSE_MS);
                } catch (InterruptedException end) {
                    break;
                }
            }
        }

        void end() throws InterruptedException {
            ending = true;
            join();
            producer.shutdown();
        }

        String counts() {
            return sent + " " + failures.size();
        }
    }
}
